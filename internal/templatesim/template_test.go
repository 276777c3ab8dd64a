package templatesim

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadTemplates(t *testing.T) {
	t.Parallel()
	want := []Template{{
		ID: "hej.sv", Code: "hej", Type: "push", Language: "sv", Version: 1,
		Content: Content{Title: "Hej 👋", Body: "{{namn}}"}, Variables: []string{},
	}}
	for _, test := range []struct {
		name, text string
		templates  []Template
		problem    string
	}{
		{"yaml", "- code: hej\n  language: sv\n  content: {title: 'Hej 👋', body: '{{namn}}'}\n", want, ""},
		{"json", `[{"code":"hej","language":"sv","content":{"title":"Hej \ud83d\udc4b","body":"{{namn}}"}}]`, want, ""},
		{"everything.yaml", "- {id: i, code: c, type: sms, language: en, version: 3, content: {title: t}, variables: [v]}", []Template{
			{ID: "i", Code: "c", Type: "sms", Language: "en", Version: 3, Content: Content{Title: "t"}, Variables: []string{"v"}},
		}, ""},
		{"mistyped.yaml", "- {code: c, langauge: en, content: {title: t}}", nil, "langauge"},
		{"mistyped.json", `[{"code":"c","langauge":"en"}]`, nil, "langauge"},
		{"no content.yaml", "- {code: c, language: en, content: {title: t}}\n- {code: d, language: en}", nil, "number 2"},
		{"empty.yaml", "", nil, "has none"},
		{"empty.json", "", nil, "has none"},
		{"no list.yaml", "code: c", nil, "read templates from"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "templates."+test.name)
			require.NoError(t, os.WriteFile(path, []byte(test.text), 0o600))
			templates, err := ReadTemplates(path)
			if test.problem == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, test.problem)
				require.ErrorContains(t, err, path)
			}
			require.Equal(t, test.templates, templates)
		})
	}
	_, err := ReadTemplates(filepath.Join(t.TempDir(), "absent"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
