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

// writeTable writes the results for a terminal.
func writeTable(out io.Writer, results []result) error {
	rows := tableRows(results)
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
		if _, err := fmt.Fprintln(out, strings.TrimRight(line.String(), " ")); err != nil {
			return err
		}
	}
	return nil
}

// writeMarkdown writes machine and results as docs/benchmarks.md has them.
func writeMarkdown(out io.Writer, facts []fact, results []result) error {
	var text strings.Builder
	for _, f := range facts {
		fmt.Fprintf(&text, "- %s: %s\n", f.Name, f.Value)
	}
	text.WriteString("\n")
	for place, row := range tableRows(results) {
		for column := range row {
			row[column] = strings.ReplaceAll(row[column], "|", `\|`)
		}
		fmt.Fprintf(&text, "| %s |\n", strings.Join(row, " | "))
		if place == 0 {
			fmt.Fprintf(&text, "%s|\n", strings.Repeat("|---", len(row)))
		}
	}
	_, err := io.WriteString(out, text.String())
	return err
}
