-- Gives tasks back that were taken and not begun, as asynq v0.26.0 does with one
-- (internal/rdb: requeueCmd): they are the next to be taken.
--
-- KEYS[1] ids of the queue's active tasks
-- KEYS[2] leases of the queue
-- KEYS[3] ids of the queue's pending tasks
-- ARGV[1] what a task's key begins with, before its id: it has the tag of the KEYS
-- ARGV[2] and on: for each task, the oldest last, its id and the second at which the
-- lease runs out that it was taken with
--
-- Returns how many were given back. Those whose lease is another one by now, or none,
-- belong to somebody else.

local given = 0
for i = 2, #ARGV, 2 do
  local id, lease = ARGV[i], tonumber(ARGV[i + 1])
  local held = tonumber(redis.call('ZSCORE', KEYS[2], id) or 0) == lease
  if held and redis.call('LPOS', KEYS[1], id, 'RANK', -1) then
    -- First where it goes: if Redis refuses one of these commands, the task is not lost.
    redis.call('HSET', ARGV[1] .. id, 'state', 'pending')
    redis.call('RPUSH', KEYS[3], id)
    redis.call('LREM', KEYS[1], -1, id)
    redis.call('ZREM', KEYS[2], id)
    given = given + 1
  end
end
return given
