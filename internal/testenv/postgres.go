package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// postgresStartTimeout is long because many tests share few cores; an idle
// machine needs about 100 ms.
const postgresStartTimeout = 2 * time.Minute

// Postgres is a PostgreSQL server that belongs to one test. Its methods are for
// the test's own goroutine, except URL.
type Postgres struct {
	t         testing.TB
	server    string // the program
	arguments []string
	account   *syscall.Credential
	directory string
	port      int
	child     *child
}

// StartPostgres starts an empty PostgreSQL on a free loopback port and returns
// when it answers. What it has committed outlives the process, though not the
// machine. arguments are as on the command line of postgres: "-c", "work_mem=1MB".
// It is killed when the test ends.
func StartPostgres(t testing.TB, arguments ...string) *Postgres {
	t.Helper()
	return startPostgres(t, reservePort, arguments)
}

func startPostgres(t testing.TB, reserve portReserver, arguments []string) *Postgres {
	t.Helper()
	p := newPostgres(t, arguments)
	p.run("initdb", "--pgdata", p.data(), "--username", "test", "--auth", "trust", "--no-sync", "--encoding", "UTF8", "--locale", "C")
	p.startOnAPort(reserve)
	return p
}

// StartStandby starts a hot standby of the server: it follows it, and can be read from. It is
// killed when the test ends, like every server.
func (p *Postgres) StartStandby(t testing.TB) *Postgres {
	t.Helper()
	standby := newPostgres(t, p.arguments)
	standby.run("pg_basebackup", "--dbname", p.URL(), "--pgdata", standby.data(), "--write-recovery-conf", "--checkpoint", "fast", "--no-sync")
	standby.startOnAPort(reservePort)
	return standby
}

// Promote makes a standby the primary, and returns when it takes writes.
func (p *Postgres) Promote(t testing.TB) {
	t.Helper()
	connection, err := pgx.Connect(t.Context(), p.URL())
	p.check(err)
	defer func() { _ = connection.Close(context.WithoutCancel(t.Context())) }()
	var promoted bool
	p.check(connection.QueryRow(t.Context(), "SELECT pg_promote()").Scan(&promoted))
	if !promoted {
		p.check(errors.New("it was not promoted in time"))
	}
}

// newPostgres prepares a directory for a server.
func newPostgres(t testing.TB, arguments []string) *Postgres {
	t.Helper()
	p := &Postgres{t: t, arguments: arguments}
	var err error
	p.server, err = FindPostgres("postgres")
	p.check(err)
	p.account, err = postgresAccount()
	p.check(err)
	// Directories of the testing package are closed to other accounts.
	p.directory, err = os.MkdirTemp("", "pushq-postgres-")
	p.check(err)
	t.Cleanup(p.remove)
	if p.account != nil {
		p.check(os.Chown(p.directory, int(p.account.Uid), int(p.account.Gid)))
	}
	return p
}

// run runs a program of PostgreSQL to its end.
func (p *Postgres) run(program string, arguments ...string) {
	p.t.Helper()
	path, err := FindPostgres(program)
	p.check(err)
	command := exec.Command(path, arguments...)
	command.Dir = p.directory
	command.SysProcAttr = &syscall.SysProcAttr{Credential: p.account}
	if output, err := command.CombinedOutput(); err != nil {
		p.t.Fatalf("%s: %v\n%s", program, err, output)
	}
}

func (p *Postgres) startOnAPort(reserve portReserver) {
	p.t.Helper()
	p.check(startOnPorts(p.t, reserve, 1, func(ports []int) error {
		p.port = ports[0]
		return p.start()
	}))
}

// Addr returns the server's address, 127.0.0.1:port; it stays the same over Stop and Start.
func (p *Postgres) Addr() string { return loopback(p.port) }

// URL returns where its database is; it stays the same over Stop and Start.
func (p *Postgres) URL() string { return "postgres://test@" + p.Addr() + "/postgres?sslmode=disable" }

// Stop ends the server at once, as a crash would. Connections are refused until
// Start.
func (p *Postgres) Stop() {
	p.t.Helper()
	p.check(p.stop())
}

// Start starts the server again after Stop, and returns when it answers.
func (p *Postgres) Start() {
	p.t.Helper()
	if !p.child.hasEnded() {
		p.t.Fatalf("PostgreSQL %s is running: Stop it before Start", p.Addr())
	}
	p.check(p.start())
}

// Rows counts the rows of a table, and how many different values a column has. A table that
// pushq has not made yet has none.
func (p *Postgres) Rows(t testing.TB, table, column string) (count, different int) {
	t.Helper()
	connection, err := pgx.Connect(t.Context(), p.URL())
	p.check(err)
	defer func() { _ = connection.Close(context.WithoutCancel(t.Context())) }()
	err = connection.QueryRow(t.Context(), fmt.Sprintf("SELECT count(*), count(DISTINCT %s) FROM %s", column, table)).Scan(&count, &different)
	const undefinedTable = "42P01"
	if refusal, ok := errors.AsType[*pgconn.PgError](err); ok && refusal.Code == undefinedTable {
		return 0, 0
	}
	p.check(err)
	return count, different
}

func (p *Postgres) check(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatalf("PostgreSQL %s: %v", p.Addr(), err)
	}
}

func (p *Postgres) data() string { return filepath.Join(p.directory, "data") }

func (p *Postgres) remove() {
	if p.child != nil {
		if err := p.stop(); err != nil {
			p.t.Errorf("PostgreSQL %s: %v", p.Addr(), err)
		}
	}
	if err := os.RemoveAll(p.directory); err != nil {
		p.t.Errorf("PostgreSQL %s: %v", p.Addr(), err)
	}
}

// stop asks for an immediate shutdown: the server takes its children with it,
// which a SIGKILL would leave behind.
func (p *Postgres) stop() error {
	if err := p.child.stop(syscall.SIGQUIT); err != nil {
		return err
	}
	<-p.child.ended
	return nil
}

func (p *Postgres) start() error {
	logPath := filepath.Join(p.directory, "postgres.log")
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open its log: %w", err)
	}
	defer log.Close()
	command := exec.Command(p.server, append([]string{
		"-D", p.data(), "-p", strconv.Itoa(p.port), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=",
		"-c", "fsync=off", "-c", "full_page_writes=off", "-c", "max_connections=50", "-c", "shared_buffers=32MB",
	}, p.arguments...)...)
	command.Dir = p.directory
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Credential: p.account, Pdeathsig: syscall.SIGQUIT}
	if p.child, err = startChild(command); err != nil {
		return err
	}
	for deadline := time.Now().Add(postgresStartTimeout); ; time.Sleep(10 * time.Millisecond) {
		err := p.ping()
		switch {
		case err == nil:
			return nil
		case p.child.hasEnded():
			return endedAtStart("postgres", readLog(logPath))
		case time.Now().After(deadline):
			return fmt.Errorf("no answer within %s: %w; its log:\n%s", postgresStartTimeout, err, readLog(logPath))
		}
	}
}

func (p *Postgres) ping() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	connection, err := pgx.Connect(ctx, p.URL())
	if err != nil {
		return err
	}
	return connection.Close(ctx)
}

// FindPostgres returns the path of a program of PostgreSQL. It looks where Debian keeps
// them, too.
func FindPostgres(program string) (string, error) {
	if path, err := exec.LookPath(program); err == nil {
		return path, nil
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + program)
	if err != nil || len(found) == 0 {
		return "", errors.New("it is not installed: run `make test`, which installs it")
	}
	return found[len(found)-1], nil
}

// postgresAccount is whom PostgreSQL runs as: it refuses root. Nil means the
// user of this process.
func postgresAccount() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	account, err := user.Lookup("nobody")
	if err != nil {
		return nil, fmt.Errorf("it refuses to run as root: %w", err)
	}
	uid, err := strconv.ParseUint(account.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(account.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}
