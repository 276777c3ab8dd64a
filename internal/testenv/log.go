package testenv

import (
	"bytes"
	"sync"
)

// Log keeps what is written to it. It can be read meanwhile.
type Log struct {
	mutex sync.Mutex
	text  bytes.Buffer
}

func (l *Log) Write(text []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.text.Write(text)
}

func (l *Log) String() string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.text.String()
}
