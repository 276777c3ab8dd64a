package swrvesim

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

// ReadKeys reads a file of known push keys for Config.Keys: one per line; empty
// lines and lines that begin with # are skipped. A file without a key is an error.
func ReadKeys(path string) ([]string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read push keys: %w", err)
	}
	defer file.Close()

	var keys []string
	lines := bufio.NewScanner(file)
	for number := 1; lines.Scan(); number++ {
		key := strings.TrimSpace(lines.Text())
		if key == "" || strings.HasPrefix(key, "#") {
			continue
		}
		if strings.ContainsAny(key, " \t") {
			return nil, fmt.Errorf("read push keys: %s line %d: one key per line, comments on lines of their own", path, number)
		}
		keys = append(keys, key)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read push keys from %s: %w", path, err)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("read push keys: %s has none; leave the file out to accept any key", path)
	}
	return keys, nil
}
