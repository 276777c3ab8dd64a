-- Puts a task that waits, or is in asynq's archive, among the scheduled ones of its queue,
-- where asynq v0.26.0 puts a task with a time of its own (internal/rdb: scheduleCmd).
--
-- KEYS[1] hash of the task
-- KEYS[2] ids of the queue's scheduled tasks
-- KEYS[3] ids of those that are to be retried
-- KEYS[4] ids of those in the archive
-- ARGV[1] task id
-- ARGV[2] for when it is scheduled, in seconds
--
-- Returns the state of the task: scheduled, any other in which it is left alone, or GONE
-- if there is none. May be repeated.

local state = redis.call('HGET', KEYS[1], 'state')
if not state then return 'GONE' end
local ids = ({scheduled = KEYS[2], retry = KEYS[3], archived = KEYS[4]})[state]
if not ids or not redis.call('ZSCORE', ids, ARGV[1]) then return state end
-- First where it goes: if Redis refuses one of these commands, the task is not lost.
redis.call('ZADD', KEYS[2], ARGV[2], ARGV[1])
if ids ~= KEYS[2] then redis.call('ZREM', ids, ARGV[1]) end
redis.call('HSET', KEYS[1], 'state', 'scheduled')
return 'scheduled'
