package templatesim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"
)

// Template is an answer of the service, and an entry in a file of templates.
type Template struct {
	ID        string   `json:"id"`
	Code      string   `json:"code"`
	Type      string   `json:"type"`
	Language  string   `json:"language"`
	Version   int      `json:"version"`
	Content   Content  `json:"content"`
	Variables []string `json:"variables"`
}

// Content has {{name}} where the text of a variable belongs.
type Content struct {
	Title string `json:"title"`
	Body  string `json:"body"`
}

var builtIn = []Template{
	push("welcome_notification", "en", "Welcome, {{name}}!", "Your account is ready, {{name}}. Have a look around.", "name"),
	push("welcome_notification", "de", "Willkommen, {{name}}!", "Ihr Konto ist bereit, {{name}}. Schauen Sie sich um.", "name"),
	push("password_reset", "en", "Reset your password", "{{name}}, your code is {{code}}. It is good for {{minutes}} minutes.", "name", "code", "minutes"),
	push("password_reset", "de", "Passwort zurücksetzen", "{{name}}, Ihr Code ist {{code}}. Er gilt {{minutes}} Minuten.", "name", "code", "minutes"),
	push("order_shipped", "en", "Your order is on its way", "Order {{order}} was shipped today.", "order"),
	push("announcement", "en", "{{title}}", "{{body}}", "title", "body"),
}

func push(code, language, title, body string, variables ...string) Template {
	return completed(Template{Code: code, Language: language, Version: 2, Content: Content{title, body}, Variables: variables})
}

// completed has a value for everything that a file may leave out.
func completed(template Template) Template {
	if template.ID == "" {
		template.ID = template.Code + "." + template.Language
	}
	if template.Type == "" {
		template.Type = "push"
	}
	if template.Version == 0 {
		template.Version = 1
	}
	if template.Variables == nil {
		template.Variables = []string{} // [] in JSON, not null
	}
	return template
}

// ReadTemplates reads a file for Config.Templates: a list of templates in the form of the
// service's answers, in JSON if the file's name ends so, else in YAML. Each needs a code,
// a language and a content; id, type, version and variables may be left out.
func ReadTemplates(path string) ([]Template, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read templates: %w", err)
	}
	var list []Template
	if filepath.Ext(path) == ".json" {
		decoder := json.NewDecoder(bytes.NewReader(content))
		decoder.DisallowUnknownFields()
		err = decoder.Decode(&list)
	} else {
		decoder := yaml.NewDecoder(bytes.NewReader(content))
		decoder.KnownFields(true)
		err = decoder.Decode(&list)
	}
	if err != nil && !errors.Is(err, io.EOF) { // which is an empty file
		return nil, fmt.Errorf("read templates from %s: %w", path, err)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("read templates: %s has none", path)
	}
	for place, template := range list {
		if template.Code == "" || template.Language == "" || template.Content == (Content{}) {
			return nil, fmt.Errorf("read templates: %s: number %d needs a code, a language and a content", path, place+1)
		}
		list[place] = completed(template)
	}
	return list, nil
}
