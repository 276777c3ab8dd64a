package template

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestRender(t *testing.T) {
	t.Parallel()
	variables := map[string]string{
		"name": "Ann", "empty": "", "other": "no", "nested": "{{other}}", "open": "{{", "close": "}}",
		"markup": `<b>&"'</b>`, "имя": "Аня", "first name": "Ann-Marie", "a.b-c_1": "x", "$1": `\1 $1 %s`,
	}
	for text, want := range map[string]string{
		"":                            "",
		"Hello":                       "Hello",
		"Hello {{name}}!":             "Hello Ann!",
		"{{name}}{{name}} {{ name }}": "AnnAnn Ann",
		"{{empty}}|{{  empty  }}":     "|",
		"{{nested}}":                  "{{other}}",
		"{{open}}name{{close}}":       "{{name}}",
		"{{open}}{{name}}{{close}}":   "{{Ann}}",
		"{{markup}}":                  `<b>&"'</b>`,
		"{{$1}}":                      `\1 $1 %s`,
		"Привет, {{имя}} 👋":           "Привет, Аня 👋",
		"{{first name}}":              "Ann-Marie",
		"{{a.b-c_1}}":                 "x",
		"{name} }} } { a}}b":          "{name} }} } { a}}b",
		"{{name}}}":                   "Ann}",
		"{":                           "{",
		"a\n{{name}}\r\n\x00":         "a\nAnn\r\n\x00",
	} {
		rendered, missing, err := render(text, variables)
		require.NoError(t, err, text)
		require.Empty(t, missing, text)
		require.Equal(t, want, rendered, text)
	}
}

func TestRenderRefusesWhatIsNoVariable(t *testing.T) {
	t.Parallel()
	for text, problem := range map[string]string{
		"Hello {{":                            "{{ at byte 6 has no }}",
		"Hello {{name":                        "{{ at byte 6 has no }}",
		"é {{name}} {{a} b":                   "{{ at byte 12 has no }}",
		"{{}}":                                `{{ at byte 0: "" cannot be the name of a variable`,
		"x{{  }}":                             `{{ at byte 1: "" cannot be the name of a variable`,
		"{{{name}}}":                          `{{ at byte 0: "{name" cannot be the name of a variable`,
		"{{a{{name}}":                         `{{ at byte 0: "a{{name" cannot be the name of a variable`,
		"{{" + strings.Repeat("{", 50) + "}}": `{{ at byte 0: "` + strings.Repeat("{", 40) + `" cannot be the name of a variable`,
	} {
		_, _, err := render(text, map[string]string{"name": "Ann", "": "nothing", "{name": "brace"})
		require.EqualError(t, err, problem, text)
	}
}

func TestMissingVariablesAreNamed(t *testing.T) {
	t.Parallel()
	welcome := Template{Code: "welcome", Content: Content{Title: "{{b}} {{name}} {{a}} {{b}}", Body: "{{c}} {{a}}"}}
	_, err := welcome.Render(map[string]string{"name": "Ann", "unused": "x"})
	require.EqualError(t, err, `template welcome: it needs variables that the message does not have: "a", "b", "c"`)
	var missing *MissingError
	require.ErrorAs(t, err, &missing)
	require.Equal(t, []string{"a", "b", "c"}, missing.Names)

	_, err = welcome.Render(nil)
	require.ErrorAs(t, err, &missing)
	require.Equal(t, []string{"a", "b", "c", "name"}, missing.Names)

	content, err := welcome.Render(map[string]string{"a": "1", "b": "2", "c": "", "name": "Ann"})
	require.NoError(t, err)
	require.Equal(t, Content{Title: "2 Ann 1 2", Body: " 1"}, content)

	var many strings.Builder
	for letter := 'a'; letter <= 'n'; letter++ {
		many.WriteString("{{" + strings.Repeat(string(letter), 100) + "}}")
	}
	_, err = Template{Code: "many", Content: Content{Title: many.String()}}.Render(nil)
	require.ErrorContains(t, err, `"`+strings.Repeat("a", 40)+`"`)
	require.ErrorContains(t, err, `jj" and 4 more`)
	require.Less(t, len(err.Error()), 600)
}

func TestRenderNamesTheText(t *testing.T) {
	t.Parallel()
	_, err := Template{Code: "welcome", Content: Content{Title: "{{name"}}.Render(nil)
	require.EqualError(t, err, "title of template welcome: {{ at byte 0 has no }}")
	_, err = Template{Code: "welcome", Content: Content{Body: "a{{ }}"}}.Render(nil)
	require.EqualError(t, err, `body of template welcome: {{ at byte 1: "" cannot be the name of a variable`)
}

func TestRenderIsBounded(t *testing.T) {
	t.Parallel()
	variables := map[string]string{"a": strings.Repeat("x", maxText/4)}
	rendered, _, err := render(strings.Repeat("{{a}}", 4), variables)
	require.NoError(t, err)
	require.Len(t, rendered, maxText)
	_, _, err = render(strings.Repeat("{{a}}", 5)+"{{", variables)
	require.ErrorContains(t, err, "more than 16384 bytes", "and it goes no further")
}

func TestRenderProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		// Pieces without braces, and variables between them.
		pieces := rapid.SliceOfN(rapid.StringMatching(`[^{}]{0,20}`), 1, 8).Draw(t, "pieces")
		names := rapid.SliceOfN(rapid.StringMatching(`[a-z]{1,3}`), len(pieces)-1, len(pieces)-1).Draw(t, "names")
		value := rapid.OneOf(rapid.StringN(0, 50, -1), rapid.SampledFrom([]string{"{{a}}", "{{", "}}", "{{ab}} {{abc}}"}))
		text, want, variables := pieces[0], pieces[0], map[string]string{}
		for place, name := range names {
			if _, drawn := variables[name]; !drawn {
				variables[name] = value.Draw(t, "value of "+name)
			}
			text += "{{" + name + "}}" + pieces[place+1]
			want += variables[name] + pieces[place+1]
		}
		rendered, missing, err := render(text, variables)
		if err != nil || len(missing) > 0 || rendered != want {
			t.Fatalf("%q with %q is %q, %q, %v and not %q", text, variables, rendered, missing, err, want)
		}
	})
}

// FuzzRender gives each variable its own placeholder: once rendered, a text stays as it is.
func FuzzRender(f *testing.F) {
	for _, text := range []string{"", "Hello {{name}}", "{{ a }}{{b}}}", "{{", "{{{a}}}", "{{}}", "}}{{a}}{", "{{\x00}}{{\xff}}"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		rendered, missing, err := render(text, nil)
		if !strings.Contains(text, opening) && (rendered != text || missing != nil || err != nil) {
			t.Fatalf("%q has no variables, and becomes %q, %q, %v", text, rendered, missing, err)
		}
		if err != nil {
			return
		}
		variables := map[string]string{}
		for _, name := range missing {
			variables[name] = opening + name + ending
		}
		once, still, err := render(text, variables)
		if len(still) > 0 {
			t.Fatalf("%q: still missing %q", text, still)
		}
		if err != nil {
			if len(text) <= maxText {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		again, _, err := render(once, variables)
		if err != nil || again != once {
			t.Fatalf("%q becomes %q and then %q, %v", text, once, again, err)
		}
		// Without its variables nothing is left but what is not a variable.
		if want := len(once) - countBytes(missing); len(rendered) != want {
			t.Fatalf("%q: %d bytes besides the variables, not %d", text, len(rendered), want)
		}
	})
}

func countBytes(names []string) (total int) {
	for _, name := range names {
		total += len(opening) + len(name) + len(ending)
	}
	return total
}
