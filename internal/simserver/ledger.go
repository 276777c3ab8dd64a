package simserver

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
)

// WriteLedger answers with {"dropped":n,"requests":[…]}, one request per line. Requests
// are numbered from 1 in the order of their arrival, and dropped counts those before the
// first one shown.
func WriteLedger[Request any](w http.ResponseWriter, requests []Request, number func(Request) int) {
	dropped := 0
	if len(requests) > 0 {
		dropped = number(requests[0]) - 1
	}
	w.Header().Set("Content-Type", "application/json")
	// Write errors mean that the reader has gone.
	buffered := bufio.NewWriter(w)
	defer buffered.Flush()
	fmt.Fprintf(buffered, `{"dropped":%d,"requests":[`, dropped)
	encoder := json.NewEncoder(buffered)
	encoder.SetEscapeHTML(false)
	for place, request := range requests {
		if place > 0 {
			buffered.WriteByte(',')
		}
		if encoder.Encode(request) != nil {
			return
		}
	}
	buffered.WriteString("]}\n")
}
