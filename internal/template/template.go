// Package template gets the texts of notifications from the template service, keeps them
// for a while, and puts variables into them.
package template

import (
	"errors"
	"fmt"
	"slices"

	jsonv2 "github.com/go-json-experiment/json"
)

// A Template is what the template service has under a code, in one language.
type Template struct {
	Code    string
	Content Content
}

// Content is what a person sees.
type Content struct {
	Title string `json:"title"`
	Body  string `json:"body"`
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

// decode reads an answer of the service. What it says besides is not looked at: it may
// have fallen back to another language, and the texts themselves say which variables they
// need.
func decode(code string, body []byte) (Template, error) {
	var answer struct {
		Code    string  `json:"code"`
		Type    string  `json:"type"`
		Content Content `json:"content"`
	}
	if err := jsonv2.Unmarshal(body, &answer); err != nil {
		return Template{}, err
	}
	switch content := answer.Content; {
	case answer.Code != code:
		return Template{}, fmt.Errorf("its code is %.80q, not %q", answer.Code, code)
	case answer.Type != "push":
		return Template{}, fmt.Errorf("its type is %.80q, not push", answer.Type)
	case content == Content{}:
		return Template{}, errors.New("it has neither title nor body")
	case len(content.Title)+len(content.Body) > maxText:
		return Template{}, fmt.Errorf("its texts have more than %d bytes", maxText)
	}
	return Template{Code: code, Content: answer.Content}, nil
}
