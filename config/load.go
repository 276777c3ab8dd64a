package config

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// DefaultFile is read if no file is named and it exists.
const DefaultFile = "pushq.yaml"

// defaultSource is the origin of a value that nobody has set.
const defaultSource = "default"

// Options say where Load looks.
type Options struct {
	// File is the configuration file; it must exist. If empty, DefaultFile in
	// the working directory is read if it exists.
	File string
	// Environ holds variables as NAME=value, as os.Environ returns them.
	Environ []string
	// Overrides are values from the command line by their key, such as
	// http.listen, written as in an environment variable.
	Overrides map[string]string
	// RequireRedis makes an empty redis.url a problem.
	RequireRedis bool
	// ReadFile reads the file, and the files that variables ending in _FILE
	// name; from disk if nil.
	ReadFile func(name string) ([]byte, error)
}

// Loaded is a valid configuration and where it came from.
type Loaded struct {
	Config Config
	// Origins says for each key where its value comes from: "default",
	// "pushq.yaml:12", a variable's name, or "command line".
	Origins map[string]string
	// Warnings are for the log at start; they hold no secrets.
	Warnings []string
	// UnknownVariables are those of the warnings that are about variables with the prefix
	// which name no setting: each may be a mistyped one.
	UnknownVariables []string
}

// Load reads the defaults, then the file, then the environment, then the
// overrides, each of which replaces the value of a key as a whole, and checks
// the result. Anything wrong is an *InvalidError that lists all problems.
func Load(options Options) (*Loaded, error) {
	l := newLoader(options)
	l.applyFile()
	l.applyEarlierVariables()
	l.applyEnvironment()
	l.applyOverrides()
	for _, finding := range check(l.config, options.RequireRedis, l.broken) {
		l.report(finding.keys[0], l.sourceOf(finding.keys), finding.text)
	}
	if len(l.problems) > 0 {
		return nil, &InvalidError{Problems: l.problems, UnknownVariables: l.unknownVariables}
	}
	return &Loaded{
		Config:           l.config,
		Origins:          l.origins,
		Warnings:         append(slices.Clone(l.unknownVariables), l.config.warnings()...),
		UnknownVariables: l.unknownVariables,
	}, nil
}

// Default returns the configuration when nothing is set. It is valid, but has
// no redis.url.
func Default() Config { return newLoader(Options{}).config }

// maxFileBytes is more than any configuration needs.
const maxFileBytes = 1 << 20

// readFile is os.ReadFile with a limit: /dev/zero has no end.
func readFile(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	content, err := io.ReadAll(io.LimitReader(file, maxFileBytes+1))
	if err == nil && len(content) > maxFileBytes {
		return nil, fmt.Errorf("it is longer than %d bytes", maxFileBytes)
	}
	return content, err
}

// loader is the state of one Load.
type loader struct {
	options  Options
	config   Config
	settings []setting // of config
	origins  map[string]string
	broken   map[string]bool // keys whose value is not known, because it cannot be read
	problems []Problem
	// unknownVariables are warnings.
	unknownVariables []string
}

// newLoader returns a loader whose configuration holds the defaults.
func newLoader(options Options) *loader {
	if options.ReadFile == nil {
		options.ReadFile = readFile
	}
	l := &loader{options: options, origins: map[string]string{}, broken: map[string]bool{}}
	l.settings = settingsOf(&l.config)
	for _, setting := range l.settings {
		l.setText(setting, setting.defaultText, defaultSource)
	}
	return l
}

func (l *loader) report(key, source, text string) {
	l.problems = append(l.problems, Problem{Key: key, Source: source, Text: text})
}

// reportFile reports that the file cannot be read. What it would have set is
// then not known, unless another source sets it.
func (l *loader) reportFile(name, text string) {
	l.report("", name, text)
	for _, setting := range l.settings {
		l.broken[setting.key] = true
	}
}

// reportBroken reports a value that cannot be read.
func (l *loader) reportBroken(setting setting, source, text string) {
	l.broken[setting.key] = true
	l.report(setting.key, source, text)
}

// setText sets a value that is given as text.
func (l *loader) setText(setting setting, text, source string) {
	if isQuoted(text) {
		l.reportBroken(setting, source, "is in quotes, which belong to the value here (docker's --env-file keeps them): leave them out, or write it in pushq.yaml if they are meant")
		return
	}
	node, err := textNode(text, setting.field)
	if err != nil {
		l.reportBroken(setting, source, err.Error()+": write such as "+setting.example)
		return
	}
	l.set(setting, node, source, func(*yaml.Node) string { return source })
}

// isQuoted reports whether a text begins and ends with the same quotation mark.
func isQuoted(text string) bool {
	text = strings.TrimSpace(text)
	return len(text) > 1 && text[0] == text[len(text)-1] && (text[0] == '"' || text[0] == '\'')
}

// set sets a value; sourceAt says where a part of it stands.
func (l *loader) set(setting setting, node *yaml.Node, origin string, sourceAt func(*yaml.Node) string) {
	delete(l.broken, setting.key)
	decode(node, setting.field, setting.key, func(place *yaml.Node, path, text string) {
		l.broken[setting.key] = true
		l.report(path, sourceAt(place), text)
	})
	l.origins[setting.key] = origin
}

func (l *loader) setting(key string) (setting, bool) {
	i := slices.IndexFunc(l.settings, func(s setting) bool { return s.key == key })
	if i < 0 {
		return setting{}, false
	}
	return l.settings[i], true
}

func (l *loader) applyOverrides() {
	for _, key := range slices.Sorted(maps.Keys(l.options.Overrides)) {
		const source = "command line"
		setting, known := l.setting(key)
		if !known {
			l.report(key, source, l.unknownKeyText(key))
			continue
		}
		l.setText(setting, l.options.Overrides[key], source)
	}
}

func (l *loader) unknownKeyText(key string) string {
	if name := nearest(key, l.keysAndSections()); name != "" {
		return "is not a known key; the nearest one is " + name
	}
	return "is not a known key: pushq config doc lists them"
}

// sourceOf names the source of one key, or the sources of several with their keys.
func (l *loader) sourceOf(keys []string) string {
	source := l.origins[keys[0]]
	for _, key := range keys[1:] {
		source += ", " + key + ": " + l.origins[key]
	}
	return source
}

// fileAndLine is where a part of a file stands.
func fileAndLine(file string, line int) string {
	return file + ":" + strconv.Itoa(line)
}
