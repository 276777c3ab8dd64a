-- Takes a task out of asynq's archive, unless it has left it meanwhile.
-- (asynq's own deletion would also delete a task that has just been requeued.)
--
-- KEYS[1] archive of the queue
-- KEYS[2] hash of the task
-- ARGV[1] task id
--
-- Returns GONE if asynq does not have the task any more, and KEPT if it is in
-- another state.

if redis.call('EXISTS', KEYS[2]) == 0 then
  redis.call('ZREM', KEYS[1], ARGV[1])
  return 'GONE'
end
if redis.call('HGET', KEYS[2], 'state') == 'archived' and redis.call('ZREM', KEYS[1], ARGV[1]) == 1 then
  redis.call('DEL', KEYS[2])
  return 'GONE'
end
return 'KEPT'
