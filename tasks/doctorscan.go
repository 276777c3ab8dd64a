package tasks

import (
	"context"
	"fmt"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// eachPage reads the ids in one place of a queue. A task that moves meanwhile
// may be missed or read twice.
func (d *Doctor) eachPage(ctx context.Context, queue string, place asynq.TaskState, visit func(ids []string) error) error {
	key := asynqStateKey(queue, place)
	if isList(place) {
		// From the head: new ones come there, and only make a page repeat ids.
		for first := int64(0); ; first += doctorPage {
			ids, err := d.redis.LRange(ctx, key, first, first+doctorPage-1).Result()
			if err != nil {
				return fmt.Errorf("read %s: %w: %w", key, ErrUnreadable, err)
			}
			if len(ids) == 0 {
				return nil
			}
			if err := visit(ids); err != nil {
				return err
			}
		}
	}
	for cursor := uint64(0); ; {
		members, next, err := d.redis.ZScan(ctx, key, cursor, "", doctorPage).Result()
		if err != nil {
			return fmt.Errorf("read %s: %w: %w", key, ErrUnreadable, err)
		}
		ids := make([]string, 0, len(members)/2)
		for place := 0; place < len(members); place += 2 { // each is followed by its score
			ids = append(ids, members[place])
		}
		if err := visit(ids); err != nil {
			return err
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// scan visits all keys that begin with prefix, page by page. In a cluster they
// are on one node: the prefix has their hash tag.
func (d *Doctor) scan(ctx context.Context, prefix string, visit func(keys []string) error) error {
	var node redis.Cmdable = d.redis
	if cluster, ok := d.redis.(*redis.ClusterClient); ok {
		master, err := cluster.MasterForKey(ctx, prefix)
		if err != nil {
			return fmt.Errorf("find the node of %s: %w: %w", prefix, ErrUnreadable, err)
		}
		node = master
	}
	for cursor := uint64(0); ; {
		keys, next, err := node.Scan(ctx, cursor, prefix+"*", doctorPage).Result()
		if err != nil {
			return fmt.Errorf("scan for %s: %w: %w", prefix, ErrUnreadable, err)
		}
		if len(keys) > 0 {
			if err := visit(keys); err != nil {
				return err
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}
