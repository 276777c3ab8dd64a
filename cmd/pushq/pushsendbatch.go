package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/spf13/cobra"
)

// A part of a batch is small enough for every server, and for one answer in a
// moment.
const (
	partItems = 1000
	partBytes = 1 << 20
)

const byteOrderMark = "\ufeff"

// sendBatch posts the lines of a file (or "-" for the input), each one push as
// JSON, and prints one result a line. It stops between two parts if the command
// is to stop.
func sendBatch(command *cobra.Command, file string) error {
	input := command.InOrStdin()
	if file != "-" {
		opened, err := os.Open(file)
		if err != nil {
			return fmt.Errorf("--batch: %w", err)
		}
		defer func() { _ = opened.Close() }()
		input = opened
	}
	client, err := newPushClient(command)
	if err != nil {
		return err
	}
	s := batchSender{client: client, out: bufio.NewWriter(command.OutOrStdout()), shown: newProgress(command.ErrOrStderr(), "send")}
	defer s.client.close()
	err = s.sendAll(command.Context(), input)
	s.shown.end()
	if flushErr := s.out.Flush(); err == nil && flushErr != nil {
		err = fmt.Errorf("print the results: %w", flushErr)
	}
	switch {
	case err != nil && !s.posted: // a fault of the file
		return err
	case err != nil && s.sent == 0:
		return fmt.Errorf("%w\nNo push has a result; repeating is safe for those with an idempotencyKey", err)
	case err != nil:
		return fmt.Errorf("%w\nThe first %d pushes have their results (%d not accepted); repeating is safe for those with an idempotencyKey",
			err, s.sent, s.refused)
	case s.sent == 0:
		return fmt.Errorf("--batch %s holds no pushes: one a line is wanted, as JSON", file)
	case s.refused > 0:
		return fmt.Errorf("%d of %d pushes were not accepted: see their results", s.refused, s.sent)
	}
	return nil
}

type batchSender struct {
	client *pushClient
	out    *bufio.Writer
	shown  *progress

	part          bytes.Buffer
	items         int  // in the part
	posted        bool // the server has been asked
	sent, refused int
}

func (s *batchSender) sendAll(ctx context.Context, input io.Reader) error {
	lines := bufio.NewScanner(input)
	lines.Buffer(nil, partBytes-1) // with its line break a line fits into a part
	for lines.Scan() {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		if s.sent+s.items == 0 && bytes.HasPrefix(bytes.TrimPrefix(line, []byte(byteOrderMark)), []byte("[")) {
			return errors.New("--batch: this is a JSON array: write one push a line, each a JSON object, without brackets around and commas between them")
		}
		if s.items == partItems || s.part.Len()+len(line)+1 > partBytes {
			if err := s.sendPart(ctx); err != nil {
				return err
			}
		}
		s.part.Write(line)
		s.part.WriteByte('\n')
		s.items++
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("--batch: read a line: %w", err)
	}
	return s.sendPart(ctx)
}

func (s *batchSender) sendPart(ctx context.Context) error {
	if s.items == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("stopped: %w", err)
	}
	s.posted = true
	header := http.Header{"Content-Type": {"application/x-ndjson"}}
	_, answer, err := s.client.call(context.WithoutCancel(ctx), http.MethodPost, "/push/batch", header, s.part.Bytes())
	if err != nil {
		return err
	}
	var results []json.RawMessage
	if err := json.Unmarshal(answer, &results); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	for _, result := range results {
		var item struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal(result, &item); err != nil {
			return fmt.Errorf("read the answer: %w", err)
		}
		if item.ID == "" {
			s.refused++
		}
		fmt.Fprintf(s.out, "%s\n", result)
	}
	s.sent += len(results)
	s.shown.show(s.sent, fmt.Sprintf("%d sent so far, %d of them not accepted", s.sent, s.refused))
	s.part.Reset()
	s.items = 0
	return nil
}
