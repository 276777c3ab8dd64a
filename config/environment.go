package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
)

// fileSuffix ends the name of a variable that names a file with the value.
const fileSuffix = "_FILE"

// commandVariables start with the prefix as well, and belong to the commands
// that talk to a running server.
var commandVariables = []string{"PUSHQ_SERVER", "PUSHQ_KEY", "PUSHQ_CA", "PUSHQ_CLIENT_CERT", "PUSHQ_CLIENT_KEY"}

// earlierVariables are those of the push worker that the channel fcm replaces: today's
// deployments set them. pushq's own count more.
var earlierVariables = map[string]string{
	"TEMPLATE_SERVICE_URL": "template.url",
	"FCM_SERVER_KEY":       "fcm.serverKey",
}

// applyEarlierVariables reads those that are set to something.
func (l *loader) applyEarlierVariables() {
	for _, line := range l.options.Environ {
		name, value, _ := strings.Cut(line, "=")
		for _, setting := range l.settings {
			if value != "" && setting.key == earlierVariables[name] {
				l.setText(setting, value, name)
			}
		}
	}
}

// applyEnvironment reads the variable of each setting. Others with the prefix
// are warnings only: Kubernetes sets PUSHQ_PORT for a service named pushq.
func (l *loader) applyEnvironment() {
	variables := map[string]string{}
	for _, line := range l.options.Environ {
		name, value, _ := strings.Cut(line, "=")
		if strings.HasPrefix(name, variablePrefix) {
			variables[name] = withoutLineBreak(value)
		}
	}
	known := make([]string, 0, len(l.settings))
	for _, setting := range l.settings {
		known = append(known, setting.variable)
		value, set := variables[setting.variable]
		file, fileSet := variables[setting.variable+fileSuffix]
		delete(variables, setting.variable)
		delete(variables, setting.variable+fileSuffix)
		switch {
		case set && fileSet:
			l.reportBroken(setting, setting.variable, "is also set by "+setting.variable+fileSuffix+": remove one of the two")
		case set:
			l.setText(setting, value, setting.variable)
		case fileSet:
			l.setFromFile(setting, file)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		if !slices.Contains(commandVariables, name) {
			l.unknownVariables = append(l.unknownVariables, unknownVariableText(name, known))
		}
	}
}

// setFromFile sets the value that stands in a file, such as a mounted secret.
func (l *loader) setFromFile(setting setting, file string) {
	variable := setting.variable + fileSuffix
	content, err := l.options.ReadFile(file)
	if err != nil {
		l.reportBroken(setting, variable, "names a file that cannot be read: "+withoutPath(err).Error())
		return
	}
	l.setText(setting, withoutLineBreak(string(content)), variable)
}

// withoutLineBreak drops the line breaks at the end, which files have, and variables of
// files that were written on Windows.
func withoutLineBreak(value string) string { return strings.TrimRight(value, "\r\n") }

// withoutPath drops the path of a failed read: it is the secret itself if
// somebody has put that where its file's name belongs.
func withoutPath(err error) error {
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		return pathError.Err
	}
	return errors.New("reading failed")
}

func unknownVariableText(name string, known []string) string {
	text := fmt.Sprintf("the environment variable %s is not known and has no effect", name)
	stem := func(name string) string {
		return strings.TrimSuffix(strings.TrimPrefix(name, variablePrefix), fileSuffix)
	}
	stems := make([]string, len(known))
	for place, variable := range known {
		stems[place] = stem(variable)
	}
	if similar := nearest(stem(name), stems); similar != "" {
		text += "; the nearest one is " + variablePrefix + similar
	}
	return text
}
