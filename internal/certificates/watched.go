package certificates

import (
	"crypto/tls"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
)

// watched is a certificate and its key in files that may be renewed. It is safe
// for concurrent use.
type watched struct {
	certFile, keyFile string
	log               *slog.Logger

	mutex    sync.Mutex
	pair     *tls.Certificate
	versions [2]fs.FileInfo // of the files that were read last, or nil
}

func watch(certFile, keyFile string, log *slog.Logger) (*watched, error) {
	w := &watched{certFile: certFile, keyFile: keyFile, log: log, versions: versionsOf(certFile, keyFile)}
	pair, err := ReadPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("the certificate %s %w", certFile, err)
	}
	w.pair = pair
	return w, nil
}

// latest looks at the files at each handshake. What cannot be used is logged
// once, and the certificate before it is kept: a renewal may be half done.
func (w *watched) latest() *tls.Certificate {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	versions := versionsOf(w.certFile, w.keyFile)
	if same(versions[0], w.versions[0]) && same(versions[1], w.versions[1]) {
		return w.pair
	}
	w.versions = versions
	pair, err := ReadPair(w.certFile, w.keyFile)
	if err != nil {
		w.log.Error("the renewed certificate cannot be used, the one before is kept",
			slog.String("file", w.certFile), slog.Any("error", fmt.Errorf("the certificate %w", err)))
		return w.pair
	}
	w.log.Info("certificate read again", slog.String("file", w.certFile), slog.Time("valid_until", pair.Leaf.NotAfter))
	w.pair = pair
	return w.pair
}

func versionsOf(files ...string) (versions [2]fs.FileInfo) {
	for place, file := range files {
		versions[place], _ = os.Stat(file) // nil if it is not there
	}
	return versions
}

func same(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
