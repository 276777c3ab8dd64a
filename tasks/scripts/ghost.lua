-- Removes the id of a task whose content is gone. A worker that takes such an
-- id finds nothing, waits as for an empty queue, and leaves a hash without a
-- message behind.
--
-- KEYS[1] list or sorted set of the queue's ids
-- KEYS[2] hash of the task
-- KEYS[3] leases of the queue
-- ARGV[1] task id
-- ARGV[2] 'list' or 'zset'
-- ARGV[3] 'fix', or 'look' to change nothing
--
-- Returns WELL, WRONG (only looked at) or MENDED.

if read('HEXISTS', KEYS[2], 'msg') ~= 0 then return 'WELL' end -- or of another type: see unusabletasks.go
local list = ARGV[2] == 'list'
if not redis.call(list and 'LPOS' or 'ZSCORE', KEYS[1], ARGV[1]) then return 'WELL' end
if ARGV[3] ~= 'fix' then return 'WRONG' end
if list then
  redis.call('LREM', KEYS[1], 0, ARGV[1])
else
  redis.call('ZREM', KEYS[1], ARGV[1])
end
redis.call('ZREM', KEYS[3], ARGV[1])
redis.call('DEL', KEYS[2])
return 'MENDED'
