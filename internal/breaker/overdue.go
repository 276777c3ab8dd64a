package breaker

import "context"

// A report of what became of a call.
type report struct {
	call, subject string
	result        Result
}

// owe keeps reports that Redis may not have taken, so that their calls do not stand in
// the way until they are forgotten.
func (b *Breaker) owe(reports ...report) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.overdue = append(b.overdue, reports...)
}

// catchUp makes the reports that are overdue. That the service has worked is news no
// more: others may have failed since.
func (b *Breaker) catchUp(ctx context.Context) error {
	b.mutex.Lock()
	overdue := b.overdue
	b.overdue = nil
	b.mutex.Unlock()
	for place, report := range overdue {
		if report.result == Good {
			report.result = Void
		}
		if _, err := b.run(ctx, string(report.result), report.call, report.subject); err != nil {
			b.owe(overdue[place:]...)
			return err
		}
	}
	return nil
}
