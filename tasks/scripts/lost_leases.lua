-- Takes tasks back whose lease has run out, as asynq's recoverer does (its
-- retryCmd, for an error that is no failure), only sooner. One page of them.
--
-- KEYS[1] leases of the queue
-- KEYS[2] active list of the queue
-- KEYS[3] retry set of the queue
-- ARGV[1] seconds for which a lease must have run out
-- ARGV[2] seconds until the task is handed out again
-- ARGV[3] what a task's key begins with, before its id: it has the tag of the KEYS
-- ARGV[4] bytes that set the last error of a task, when its message ends in them
-- ARGV[5] number of leases to pass over, lowest first
-- ARGV[6] number of leases to look at
--
-- Returns {number looked at, number taken back}. The others belong to no task
-- that is active everywhere: they are for the doctor.

local now = tonumber(redis.call('TIME')[1])
local ids = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[1], 'LIMIT', ARGV[5], ARGV[6])
local taken = 0
for _, id in ipairs(ids) do
  local task = read('HMGET', ARGV[3] .. id, 'state', 'msg')
  if task and task[1] == 'active' and task[2] and redis.call('LPOS', KEYS[2], id) then
    -- First where it goes, and the state last: if Redis refuses one of these commands, the
    -- task is not lost, and the repetition goes on.
    redis.call('ZADD', KEYS[3], now + ARGV[2], id)
    redis.call('LREM', KEYS[2], 0, id)
    redis.call('HSET', ARGV[3] .. id, 'state', 'retry', 'msg', task[2] .. ARGV[4])
    redis.call('ZREM', KEYS[1], id)
    taken = taken + 1
  end
end
return {#ids, taken}
