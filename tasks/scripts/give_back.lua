-- Gives tasks back that were taken and not begun, as asynq v0.26.0 does with one
-- (internal/rdb: requeueCmd): they are the next to be taken.
--
-- KEYS[1] ids of the queue's active tasks
-- KEYS[2] leases of the queue
-- KEYS[3] ids of the queue's pending tasks
-- ARGV[1] what a task's key begins with, before its id: it has the tag of the KEYS
-- ARGV[2] and on: ids of the tasks, the oldest last
--
-- Returns how many were given back. The others are held by nobody here any more.

local given = 0
for i = 2, #ARGV do
  local id = ARGV[i]
  if redis.call('LREM', KEYS[1], -1, id) > 0 then
    redis.call('ZREM', KEYS[2], id)
    redis.call('RPUSH', KEYS[3], id)
    redis.call('HSET', ARGV[1] .. id, 'state', 'pending')
    given = given + 1
  end
end
return given
