package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"pushq/internal/testenv"
)

// startPostgres starts a PostgreSQL of its own, which keeps nothing safe (as
// the Redis here), and returns the URL of its database.
func startPostgres(t *stage) string {
	initdb, err := findPostgres("initdb")
	t.check(err)
	server, err := findPostgres("postgres")
	t.check(err)
	account, err := postgresAccount()
	t.check(err)
	directory := t.TempDir()
	if account != nil {
		t.check(os.Chown(directory, int(account.Uid), int(account.Gid)))
	}
	data := filepath.Join(directory, "data")

	command := exec.Command(initdb, "--pgdata", data, "--username", "bench", "--auth", "trust", "--no-sync", "--encoding", "UTF8")
	command.Dir = directory
	command.SysProcAttr = &syscall.SysProcAttr{Credential: account}
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, output)
	}

	address := testenv.FreeAddress(t)
	_, port, err := net.SplitHostPort(address)
	t.check(err)
	command = exec.Command(server, "-D", data, "-p", port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=",
		"-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off", "-c", "max_connections=400", "-c", "shared_buffers=256MB")
	command.Dir = directory
	t.check(startWithBench(t, command, account))

	url := "postgres://bench@" + address + "/postgres?sslmode=disable"
	testenv.EventuallyNoError(t, 30*time.Second, func() error {
		connection, err := pgx.Connect(context.Background(), url)
		if err != nil {
			return err
		}
		return connection.Close(context.Background())
	})
	return url
}

// findPostgres looks where Debian keeps the programs of PostgreSQL, too.
func findPostgres(program string) (string, error) {
	if path, err := exec.LookPath(program); err == nil {
		return path, nil
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + program)
	if err != nil || len(found) == 0 {
		return "", errors.New("PostgreSQL is not installed")
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
		return nil, fmt.Errorf("PostgreSQL refuses to run as root: %w", err)
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

// startWithBench starts a server that ends with the stage and, whatever
// happens, with this process. The kernel means the thread that started it, so
// that thread stays with the server; see internal/testenv. Ctrl-C does
// not reach it.
func startWithBench(t *stage, command *exec.Cmd, account *syscall.Credential) error {
	command.SysProcAttr = &syscall.SysProcAttr{Credential: account, Setpgid: true, Pdeathsig: syscall.SIGQUIT}
	started, ended := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := command.Start()
		started <- err
		if err == nil {
			_ = command.Wait()
			close(ended)
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start %s: %w", command.Path, err)
	}
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGQUIT) // stops at once, with its children
		<-ended
	})
	return nil
}
