package main

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"testing"

	"pushq/internal/openapitest"
)

// client fails at whatever the API's description does not say.
var client http.Client

// atOnce is how many tests run beside each other: they mostly wait.
const atOnce = "5"

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", atOnce); err != nil {
		panic(err)
	}
	description, err := openapitest.Open("../../api/openapi.yaml")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	client.Transport = description.Transport(http.DefaultTransport)
	os.Exit(m.Run())
}
