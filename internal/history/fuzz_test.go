package history

import (
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"pushq/tasks"
)

// Whatever stands in a stream, there is something to be written of it.
func FuzzRecords(f *testing.F) {
	for _, record := range life(fcmPush("user", "welcome")) {
		text, err := json.Marshal(record)
		require.NoError(f, err)
		f.Add("01", text)
	}
	f.Add("\x00\xff", []byte(`{"push":{"createdAt":1,"notification":{"metadata":{"a":"\u0000\ud800","b":1e999}}},"end":"FAILED","endedAt":-1}`))
	f.Add("", []byte(`{"push":{"notification":[[[]]]},"attempts":[null,{"status":"OK","millis":1e9,"startedAt":253402300800000}]}`))
	store := &Store{log: slog.New(slog.DiscardHandler)}
	f.Fuzz(func(t *testing.T, id string, record []byte) {
		batch := &pgx.Batch{}
		row := Row{Channel: tasks.FCM.Name, PushID: id, Record: record}
		decoded, err := decode(row)
		store.queue(batch, decodedRow{row, decoded, err})
		require.NotZero(t, batch.Len())
		for _, query := range batch.QueuedQueries {
			for _, argument := range query.Arguments {
				if text, ok := argument.(string); ok {
					require.Equal(t, storable(text), text)
				}
				if text, ok := argument.(*string); ok && text != nil {
					require.Equal(t, storable(*text), *text)
				}
			}
		}
	})
}
