package swrvesim

import "time"

const lagInterval = 2 * time.Millisecond

// measureLag sleeps for short times and notes how late it wakes up, until Close.
func (s *Simulator) measureLag(stopped <-chan struct{}) {
	timer := time.NewTimer(lagInterval)
	defer timer.Stop()
	for {
		asleep := time.Now()
		timer.Reset(lagInterval)
		select {
		case <-stopped:
			return
		case <-timer.C:
		}
		lag := time.Since(asleep) - lagInterval
		s.mu.Lock()
		s.round.noteLag(lag)
		s.mu.Unlock()
	}
}
