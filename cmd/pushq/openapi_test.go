package main

import (
	"fmt"
	"net/http"
	"os"
	"testing"

	"pushq/internal/openapitest"
)

// client fails at whatever the API's description does not say.
var client http.Client

func TestMain(m *testing.M) {
	description, err := openapitest.Open("../../api/openapi.yaml")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	client.Transport = description.Transport(http.DefaultTransport)
	os.Exit(m.Run())
}
