package history

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"pushq/internal/loopback"
	"pushq/internal/secreturl"
)

// These quote nothing: pgx leaves a password out only where it recognizes one.
var (
	errURL        = errors.New("must be postgres://user:password@host:5432/database, with what is special in the password percent-encoded")
	errParameters = errors.New("has a parameter that cannot be used, " +
		"or a parameter (sslrootcert, sslcert, sslkey) names a file that cannot be used")
	errNotWritable = errors.New("has a target_session_attrs that looks for servers that take no writes; leave it out")
)

// What is wrong with a server that answers, but takes no writes.
var (
	errStandby  = errors.New("the server is a standby")
	errReadOnly = errors.New("the server's transactions are read-only")
)

// CheckURL says whether the address of a database can be read, with the files that it
// names. It quotes nothing of it.
func CheckURL(text string) error {
	_, err := readURL(text)
	return err
}

// readURL reads the address as the other addresses of the configuration are read, and gives
// pgx one that it cannot read otherwise.
func readURL(text string) (*pgxpool.Config, error) {
	if !strings.HasPrefix(text, "postgres://") && !strings.HasPrefix(text, "postgresql://") {
		return nil, errURL
	}
	parts, err := secreturl.Cut(text)
	if err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(parts.String())
	if err == nil && looksForReaders(parts) {
		return nil, errNotWritable
	}
	if err == nil {
		return config, nil
	}
	parts.Tail, _, _ = strings.Cut(parts.Tail, "?")
	if _, err := pgxpool.ParseConfig(parts.String()); err == nil {
		return nil, errParameters
	}
	return nil, errURL
}

// looksForReaders says whether the address asks for servers that take no writes.
func looksForReaders(parts secreturl.Parts) bool {
	_, query, _ := strings.Cut(parts.Tail, "?")
	parameters, _ := url.ParseQuery(query) // pgx has read it
	return slices.Contains([]string{"read-only", "standby", "prefer-standby"}, parameters.Get("target_session_attrs"))
}

// maskOf takes the password out of errors, wherever it comes from, and that of a key.
func maskOf(text string, config *pgconn.Config) secreturl.Mask {
	secrets := []string{config.Password}
	if parts, err := secreturl.Cut(text); err == nil {
		_, query, _ := strings.Cut(parts.Tail, "?")
		if parameters, err := url.ParseQuery(query); err == nil {
			secrets = append(secrets, parameters.Get("sslpassword"))
		}
	}
	return secreturl.NewMask(secrets, config.User, config.Database, config.Host)
}

// IsOnThisHost reports whether the database of a URL that CheckURL accepts is one of this
// host: at a loopback address or a Unix socket. Of several hosts, all must be.
func IsOnThisHost(url string) bool {
	config, err := readURL(url)
	if err != nil || !isOnThisHost(config.ConnConfig.Host, config.ConnConfig.Port) {
		return false
	}
	for _, other := range config.ConnConfig.Fallbacks {
		if !isOnThisHost(other.Host, other.Port) {
			return false
		}
	}
	return true
}

func isOnThisHost(host string, port uint16) bool {
	network, _ := pgconn.NetworkAddress(host, port)
	return network == "unix" || loopback.Is(host)
}

// requireWritable refuses a server that takes no writes, so that the next one of the address
// is tried: after a failover the standby of before is the one.
func requireWritable(ctx context.Context, connection *pgconn.PgConn) error {
	results, err := connection.Exec(ctx, "SELECT pg_is_in_recovery(), current_setting('transaction_read_only')").ReadAll()
	if err != nil {
		return err
	}
	row := results[0].Rows[0]
	switch {
	case string(row[0]) == "t":
		return errStandby
	case string(row[1]) == "on":
		return errReadOnly
	}
	return nil
}

// takesNoWrites reports whether no server of the address takes writes, but one answers.
func takesNoWrites(err error) bool { return errors.Is(err, errStandby) || errors.Is(err, errReadOnly) }
