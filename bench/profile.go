package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// profiled are the packages of pushq whose benchmarks cover a hot path: taking a
// push, and delivering one.
var profiled = []string{"api", "handlers"}

// profile runs those benchmarks with profiles of processor and allocations. The
// directory is relative to the repository's, where make is called, and not to
// bench, where this program runs.
func profile(directory string) error {
	if !filepath.IsAbs(directory) {
		directory = filepath.Join("..", directory)
	}
	directory, err := filepath.Abs(directory)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return err
	}
	for _, name := range profiled {
		path := filepath.Join(directory, name)
		command := exec.Command("go", "test", "-run", "^$", "-bench", ".", "-benchmem",
			"-cpuprofile", path+".cpu", "-memprofile", path+".alloc", "-o", path+".test", "./"+name)
		command.Dir = ".."
		command.Stdout, command.Stderr = os.Stdout, os.Stderr
		if err := command.Run(); err != nil {
			return fmt.Errorf("profile %s: %w", name, err)
		}
		fmt.Printf("look at it: go tool pprof -top %s.cpu; go tool pprof -top -sample_index=alloc_objects %s.alloc\n", path, path)
	}
	return nil
}
