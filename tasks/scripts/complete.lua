-- Completes the task of a push, as asynq v0.26.0 does with a call of its own after a
-- handler has ended well (internal/rdb: markAsCompleteCmd, and doneCmd if nothing is
-- to be kept). It stands between record.lua and finish.lua.
--
-- KEYS[4] ids of the queue's active tasks
-- KEYS[5] leases of the queue
-- KEYS[6] ids of the queue's completed tasks
-- KEYS[7] hash of the task
-- KEYS[8] number of tasks processed today
-- KEYS[9] number of tasks ever processed
-- ARGV[1] id of the task
-- ARGV[13] what to append to the task's message: the time of its completion
-- ARGV[14] second until which asynq keeps the task; '' to keep nothing
-- ARGV[15] second until which the number of today is kept
--
-- Returns whether the task has been completed, by this call or an earlier one.
local function complete_task()
  local id = ARGV[1]
  -- The end of the list has the tasks that were taken first.
  if redis.call('LREM', KEYS[4], -1, id) == 0 then
    return redis.call('HGET', KEYS[7], 'state') == 'completed'
  end
  redis.call('ZREM', KEYS[5], id)
  local message = ARGV[14] ~= '' and redis.call('HGET', KEYS[7], 'msg')
  if message then
    redis.call('HSET', KEYS[7], 'msg', message .. ARGV[13], 'state', 'completed')
    redis.call('ZADD', KEYS[6], ARGV[14], id)
  else
    redis.call('DEL', KEYS[7])
  end
  if redis.call('INCR', KEYS[8]) == 1 then redis.call('EXPIREAT', KEYS[8], ARGV[15]) end
  redis.call('INCR', KEYS[9])
  return true
end

