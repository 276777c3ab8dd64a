package testenv

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// What is committed is there after a crash.
func TestPostgresKeepsItsDataOverStopAndStart(t *testing.T) {
	t.Parallel()
	server := StartPostgres(t)
	connection, err := pgx.Connect(t.Context(), server.URL())
	require.NoError(t, err)
	_, err = connection.Exec(t.Context(), "CREATE TABLE kept AS SELECT 42 AS answer")
	require.NoError(t, err)
	server.Stop()
	_, err = connection.Exec(t.Context(), "SELECT 1")
	require.Error(t, err)
	_, err = pgx.Connect(t.Context(), server.URL())
	require.Error(t, err)

	server.Start()
	connection, err = pgx.Connect(t.Context(), server.URL())
	require.NoError(t, err)
	defer func() { require.NoError(t, connection.Close(t.Context())) }()
	var answer int
	require.NoError(t, connection.QueryRow(t.Context(), "SELECT answer FROM kept").Scan(&answer))
	require.Equal(t, 42, answer)
}
