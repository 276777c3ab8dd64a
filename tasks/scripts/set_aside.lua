-- Puts due ids under whose key is something of another type among the active ones, where
-- they are for the doctor, as take.lua leaves them. asynq v0.26.0 breaks off at the first of
-- them (internal/rdb: forwardCmd), so that those behind it would never be due.
--
-- KEYS[1] ids of the queue's scheduled tasks, or of those to be tried again
-- KEYS[2] ids of the queue's active tasks
-- ARGV[1] what a task's key begins with, before its id: it has the tag of the KEYS
-- ARGV[2] number of ids to look at: asynq has forwarded those before the first such id
--
-- Returns the ids.

local now = redis.call('TIME')[1]
local aside = {}
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[2])) do
  if read('HEXISTS', ARGV[1] .. id, 'msg') == nil then
    redis.call('LPUSH', KEYS[2], id)
    redis.call('ZREM', KEYS[1], id)
    aside[#aside + 1] = id
  end
end
return aside
