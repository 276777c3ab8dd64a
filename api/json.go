package api

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/labstack/echo/v4"
)

// writeJSON writes value with its texts as they are: & and < are not escaped.
// A Content-Type that is already set stays.
func writeJSON(c echo.Context, status int, value any) error {
	response := c.Response()
	if response.Header().Get(echo.HeaderContentType) == "" {
		response.Header().Set(echo.HeaderContentType, echo.MIMEApplicationJSON)
	}
	response.WriteHeader(status)
	encoder := json.NewEncoder(response)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// streamJSON answers 200 with what write writes. The answer is nowhere whole, and a caller
// who does not read it is cut off.
func (s *Server) streamJSON(c echo.Context, write func(io.Writer) error) error {
	const piece = 32 << 10
	response := c.Response()
	response.Header().Set(echo.HeaderContentType, echo.MIMEApplicationJSON)
	response.WriteHeader(http.StatusOK)
	out := bufio.NewWriterSize(&departure{s.beginTransfer(response), response}, piece)
	if err := write(out); err != nil {
		return fmt.Errorf("write an answer: %w", err)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write an answer: %w", err)
	}
	return nil
}

// writeArray writes an array as writeJSON would, one element at a time.
func writeArray(out io.Writer, length int, element func(place int) any) error {
	var one bytes.Buffer
	encoder := json.NewEncoder(&one)
	encoder.SetEscapeHTML(false)
	one.WriteByte('[')
	for place := range length {
		if err := encoder.Encode(element(place)); err != nil {
			return err
		}
		one.Truncate(one.Len() - 1) // the line break
		if place+1 < length {
			one.WriteByte(',')
		}
		if _, err := out.Write(one.Bytes()); err != nil {
			return err
		}
		one.Reset()
	}
	one.WriteByte(']')
	_, err := out.Write(one.Bytes())
	return err
}

// writePage writes {"items":[…],"next":"…"}, without next at the end of a list.
func writePage(out io.Writer, length int, element func(place int) any, next string) error {
	if _, err := io.WriteString(out, `{"items":`); err != nil {
		return err
	}
	if err := writeArray(out, length, element); err != nil {
		return err
	}
	end := "}\n"
	if next != "" {
		cursor, err := json.Marshal(next)
		if err != nil {
			return err
		}
		end = `,"next":` + string(cursor) + end
	}
	_, err := io.WriteString(out, end)
	return err
}
