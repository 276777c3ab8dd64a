package config

import (
	"strings"

	"github.com/agnivade/levenshtein"
)

// nearest returns the known name that the unknown one was most likely meant to be, or ""
// if none is near: a third of its letters may be wrong, at most three, but one always. Two
// neighbours that have changed places are one mistake, and so is the wrong section.
func nearest(unknown string, known []string) string {
	const most = 3
	best, bestDistance := "", min(most, max(1, len(lastPart(unknown))/3))+1
	for _, name := range known {
		distance := min(mistakes(unknown, name), mistakes(lastPart(unknown), lastPart(name))+1)
		if distance < bestDistance {
			best, bestDistance = name, distance
		}
	}
	return best
}

// mistakes is how many letters are wrong, missing or too many.
func mistakes(written, meant string) int {
	if len(written) == len(meant) {
		for place := range len(written) - 1 {
			if written[:place]+written[place+1:place+2]+written[place:place+1]+written[place+2:] == meant {
				return min(1, levenshtein.ComputeDistance(written, meant))
			}
		}
	}
	return levenshtein.ComputeDistance(written, meant)
}

func lastPart(key string) string {
	return key[strings.LastIndexByte(key, '.')+1:]
}
