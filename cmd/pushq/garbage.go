package main

// roomForGarbage is reserved, but never touched, so that it takes no memory of
// the host.
const roomForGarbage = 32 << 20

// makeRoomForGarbage lets garbage grow to twice roomForGarbage before it is
// collected. What a service keeps is a few megabytes, so that Go's rule (collect
// when garbage is as much as what is kept; GOGC) would collect hundreds of times
// a second under load, for a tenth of the processor's time. A larger GOGC would
// multiply what many large batches keep, too; this only adds to it. What is
// returned must be kept alive.
func makeRoomForGarbage() []byte { return make([]byte, roomForGarbage) }
