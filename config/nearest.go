package config

import (
	"strings"

	"github.com/agnivade/levenshtein"
)

// nearest returns the known name that the unknown one was most likely meant to
// be, and how many edits away it is. A name in the wrong section counts as one
// edit more than its last part.
func nearest(unknown string, known []string) (string, int) {
	best, bestDistance := "", -1
	for _, name := range known {
		distance := min(
			levenshtein.ComputeDistance(unknown, name),
			levenshtein.ComputeDistance(lastPart(unknown), lastPart(name))+1,
		)
		if bestDistance < 0 || distance < bestDistance {
			best, bestDistance = name, distance
		}
	}
	return best, bestDistance
}

func lastPart(key string) string {
	return key[strings.LastIndexByte(key, '.')+1:]
}
