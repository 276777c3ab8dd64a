//go:build !race

package testenv

// testBuiltWithRace: the binary under test is built like the test.
const testBuiltWithRace = false
