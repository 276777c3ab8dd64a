-- Completes the task of a push, as asynq v0.26.0 does with a call of its own after a
-- handler has ended well (internal/rdb: markAsCompleteCmd, and doneCmd if nothing is
-- to be kept). It stands between record.lua and finish.lua.
--
-- KEYS[5] ids of the queue's active tasks
-- KEYS[6] leases of the queue
-- KEYS[7] ids of the queue's completed tasks
-- KEYS[8] hash of the task
-- KEYS[9] number of tasks processed today
-- KEYS[10] number of tasks ever processed
-- ARGV[1] id of the task
-- ARGV[12] what to append to the task's message: the time of its completion
-- ARGV[13] second until which asynq keeps the task; '' to keep nothing
-- ARGV[14] second until which the number of today is kept
--
-- Returns whether the task has been completed, by this call or an earlier one.
local function complete_task()
  local id = ARGV[1]
  -- The end of the list has the tasks that were taken first.
  if redis.call('LREM', KEYS[5], -1, id) == 0 then
    return redis.call('HGET', KEYS[8], 'state') == 'completed'
  end
  redis.call('ZREM', KEYS[6], id)
  local message = ARGV[13] ~= '' and redis.call('HGET', KEYS[8], 'msg')
  if message then
    redis.call('HSET', KEYS[8], 'msg', message .. ARGV[12], 'state', 'completed')
    redis.call('ZADD', KEYS[7], ARGV[13], id)
  else
    redis.call('DEL', KEYS[8])
  end
  if redis.call('INCR', KEYS[9]) == 1 then redis.call('EXPIREAT', KEYS[9], ARGV[14]) end
  redis.call('INCR', KEYS[10])
  return true
end

