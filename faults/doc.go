// Package faults breaks a running pushq in every way that is likely and
// accounts for each push afterwards: its tests start real processes, a real
// Redis and the simulated Swrve, post pushes and remember every answer, do the
// damage, and read every accepted push back by its id.
//
// As part of `make test` the faults are short; `make test-faults` (the flag
// -full) makes them as long as they are meant to be.
package faults
