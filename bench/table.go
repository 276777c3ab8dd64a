package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

var tableHead = []string{"promise", "pushq", "baseline", "ratio", "spread", "verdict"}

func tableRows(results []result) [][]string {
	rows := [][]string{tableHead}
	for place, r := range results {
		row := []string{r.Promise, r.Pushq.cell(r.Unit, false), r.Baseline.cell(r.Unit, true), r.ratio(), r.spread(), string(r.Verdict)}
		if place > 0 && results[place-1].Promise == r.Promise {
			row[0], row[1] = "", "" // another baseline
		}
		rows = append(rows, row)
	}
	return rows
}

// writeTable writes the report for a terminal.
func (r report) writeTable(out io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%s\n\n", r.heading())
	rows := tableRows(r.Results)
	widths := make([]int, len(tableHead))
	for _, row := range rows {
		for column, cell := range row {
			widths[column] = max(widths[column], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for column, cell := range row {
			line.WriteString(cell)
			line.WriteString(strings.Repeat(" ", widths[column]-utf8.RuneCountInString(cell)+2))
		}
		text.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&text, "\n%s\n", note)
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// writeMarkdown writes the report as docs/benchmarks.md has it.
func (r report) writeMarkdown(out io.Writer) error {
	var text strings.Builder
	for _, f := range r.Facts {
		fmt.Fprintf(&text, "- %s: %s\n", f.Name, f.Value)
	}
	text.WriteString("\n")
	for place, row := range tableRows(r.Results) {
		for column := range row {
			row[column] = strings.ReplaceAll(row[column], "|", `\|`)
		}
		fmt.Fprintf(&text, "| %s |\n", strings.Join(row, " | "))
		if place == 0 {
			fmt.Fprintf(&text, "%s|\n", strings.Repeat("|---", len(row)))
		}
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&text, "\n%s\n", note)
	}
	_, err := io.WriteString(out, text.String())
	return err
}
