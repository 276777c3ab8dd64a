// Package template gets the texts of notifications from the template service, keeps them
// for a while, and puts variables into them.
package template

import (
	"fmt"
	"slices"

	jsonv2 "github.com/go-json-experiment/json"

	"pushq/internal/exchange"
)

// A Template is what the template service has under a code, in one language.
type Template struct {
	Code    string
	Content Content
}

// Content is what a person sees.
type Content struct {
	Title, Body string
}

// maxText is the most bytes of texts that are taken from the service, and about the most
// that come of them. No provider of pushes takes more than 4,096.
const maxText = 16 << 10

// Render puts the variables into title and body: see render. The error is about the
// template or the variables, and the same each time; a *MissingError names the variables
// that are asked for and not given.
func (t Template) Render(variables map[string]string) (Content, error) {
	title, missing, err := render(t.Content.Title, variables)
	if err != nil {
		return Content{}, fmt.Errorf("title of template %s: %w", t.Code, err)
	}
	body, missingInBody, err := render(t.Content.Body, variables)
	if err != nil {
		return Content{}, fmt.Errorf("body of template %s: %w", t.Code, err)
	}
	if missing = append(missing, missingInBody...); len(missing) > 0 {
		slices.Sort(missing)
		return Content{}, fmt.Errorf("template %s: %w", t.Code, &MissingError{Names: slices.Compact(missing)})
	}
	return Content{Title: title, Body: body}, nil
}

// decode reads an answer of 200. What it says besides is not looked at: it may have fallen
// back to another language, and the texts themselves say which variables they need.
//
// An answer that does not have what every template has is not the service's. One that has it
// is about this template, and is of no use if its values are wrong.
func decode(code string, answer exchange.Answer) (Template, error) {
	var read struct {
		Code    *string `json:"code"`
		Type    *string `json:"type"`
		Content struct {
			Title *string `json:"title"`
			Body  *string `json:"body"`
		} `json:"content"`
	}
	err := jsonv2.Unmarshal(answer.Text(), &read)
	if err != nil || read.Code == nil || read.Type == nil || read.Content.Title == nil && read.Content.Body == nil {
		return Template{}, foreign(answer)
	}
	content := Content{Title: textOf(read.Content.Title), Body: textOf(read.Content.Body)}
	switch {
	case *read.Code != code:
		return Template{}, unusable("its code is %.80q, not %q", *read.Code, code)
	case *read.Type != "push":
		return Template{}, unusable("its type is %.80q, not push", *read.Type)
	case content == Content{}:
		return Template{}, unusable("it has neither title nor body")
	case len(content.Title)+len(content.Body) > maxText:
		return Template{}, unusable("its texts have more than %d bytes", maxText)
	}
	return Template{Code: code, Content: content}, nil
}

func textOf(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

func unusable(format string, values ...any) error {
	return &Unusable{Reason: "answered what is not a template: " + fmt.Sprintf(format, values...)}
}
