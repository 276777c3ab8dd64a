package config

import (
	"errors"
	"io/fs"
	"strings"

	"go.yaml.in/yaml/v3"
)

// applyFile reads the configuration file. It walks YAML nodes, which keep the
// lines, repeated names, and blanks and dots in names.
func (l *loader) applyFile() {
	name := l.options.File
	if name == "" {
		name = DefaultFile
	}
	content, err := l.options.ReadFile(name)
	if l.options.File == "" && errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		l.reportFile(name, "cannot be read: "+err.Error())
		return
	}
	root, err := yamlNode(content)
	if err != nil {
		l.reportFile(name, err.Error())
		return
	}
	if root != nil {
		l.applySection(name, "", root)
	}
}

// applySection reads the mapping of one section; the file itself is the section "".
func (l *loader) applySection(file, section string, node *yaml.Node) {
	sourceAt := func(place *yaml.Node) string { return fileAndLine(file, place.Line) }
	node = followAlias(node)
	if isNull(node) {
		return // every setting of the section is commented out
	}
	if node.Kind != yaml.MappingNode {
		l.report(section, sourceAt(node), "needs a mapping of keys to values, found "+kindName(node))
		return
	}
	path := func(name string) string {
		if section == "" {
			return name
		}
		return section + "." + name
	}
	report := func(place *yaml.Node, key, text string) { l.report(key, sourceAt(place), text) }
	for _, entry := range entriesOf(node, section, path, report) {
		key := path(entry.name)
		setting, known := l.setting(key)
		switch {
		case known && strings.Contains(entry.name, "."):
			report(entry.key, key, "must be written in its section: "+lastPart(key)+", indented, below the line "+strings.TrimSuffix(key, "."+lastPart(key))+":")
		case known:
			l.set(setting, entry.value, sourceAt(entry.key), sourceAt)
		case l.isSection(key):
			l.applySection(file, key, entry.value)
		default:
			report(entry.key, key, l.unknownKeyText(key))
		}
	}
}

func (l *loader) isSection(key string) bool {
	for _, setting := range l.settings {
		if strings.HasPrefix(setting.key, key+".") {
			return true
		}
	}
	return false
}

// keysAndSections lists what may stand in the file.
func (l *loader) keysAndSections() []string {
	var list []string
	seen := map[string]bool{}
	for _, setting := range l.settings {
		for i, letter := range setting.key {
			if section := setting.key[:i]; letter == '.' && !seen[section] {
				seen[section] = true
				list = append(list, section)
			}
		}
		list = append(list, setting.key)
	}
	return list
}
