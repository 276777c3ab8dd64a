package main

import (
	"context"
	"fmt"
	"time"

	"pushq/tasks"
)

// checkedIntake takes nothing before Redis has been checked, and nothing that
// Redis has no room for. As in checkedOperator, nothing is embedded: a new method
// of the API's interface must not pass by the check.
type checkedIntake struct {
	intake  *tasks.Intake
	service *service
}

func (i *checkedIntake) Accept(ctx context.Context, push tasks.Push, keyed bool) (bool, error) {
	if err := i.admit(); err != nil {
		return false, err
	}
	replayed, err := i.intake.Accept(ctx, push, keyed)
	i.service.admission.Observe(err)
	return replayed, err
}

func (i *checkedIntake) Notify(ctx context.Context, notification tasks.Notification, message []byte, now time.Time) (string, bool, error) {
	if err := i.admit(); err != nil {
		return "", false, err
	}
	id, replayed, err := i.intake.Notify(ctx, notification, message, now)
	i.service.admission.Observe(err)
	return id, replayed, err
}

func (i *checkedIntake) admit() error {
	if !i.service.redisChecked.Load() {
		return tasks.ErrNotStored
	}
	return i.service.admission.Admit()
}

// Claim only looks, and so needs no check.
func (i *checkedIntake) Claim(ctx context.Context, push tasks.Push) (tasks.Claim, error) {
	return i.intake.Claim(ctx, push)
}

// checkedOperator does nothing before Redis has been checked. It goes on while
// new pushes are refused: what it does makes room, or needs little.
type checkedOperator struct {
	operator channels
	service  *service
}

func (o *checkedOperator) Retry(ctx context.Context, id string) error {
	if err := o.check(); err != nil {
		return err
	}
	return o.operator.Retry(ctx, id)
}

func (o *checkedOperator) Cancel(ctx context.Context, id string) error {
	if err := o.check(); err != nil {
		return err
	}
	return o.operator.Cancel(ctx, id)
}

func (o *checkedOperator) RetryAll(ctx context.Context, channel tasks.Channel, filter tasks.Filter, limit int, cursor string) (tasks.Bulk, error) {
	if err := o.check(); err != nil {
		return tasks.Bulk{}, err
	}
	return o.operator.RetryAll(ctx, channel, filter, limit, cursor)
}

func (o *checkedOperator) CancelAll(ctx context.Context, channel tasks.Channel, filter tasks.Filter, limit int, cursor string) (tasks.Bulk, error) {
	if err := o.check(); err != nil {
		return tasks.Bulk{}, err
	}
	return o.operator.CancelAll(ctx, channel, filter, limit, cursor)
}

func (o *checkedOperator) check() error {
	if !o.service.redisChecked.Load() {
		return fmt.Errorf("%w: it has not been checked, or has been found unfit", tasks.ErrUnreadable)
	}
	return nil
}
