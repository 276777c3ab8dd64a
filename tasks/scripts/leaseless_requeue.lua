-- Puts an active task that has no lease back to the front of its queue, as
-- asynq's own requeue does, which needs the lease.
--
-- KEYS[1] active list of the queue
-- KEYS[2] leases of the queue
-- KEYS[3] hash of the task
-- KEYS[4] pending list of the queue
-- ARGV[1] task id
-- ARGV[2] 'fix', or 'look' to change nothing
--
-- Returns WELL, WRONG (only looked at) or MENDED.

if redis.call('ZSCORE', KEYS[2], ARGV[1]) then return 'WELL' end
if not redis.call('LPOS', KEYS[1], ARGV[1]) then return 'WELL' end
if read('HEXISTS', KEYS[3], 'msg') ~= 1 then return 'WELL' end -- a ghost (ghost.lua), or of another type (unusabletasks.go)
if ARGV[2] ~= 'fix' then return 'WRONG' end
-- First where it goes: if Redis refuses one of these commands, the task is not lost.
redis.call('HSET', KEYS[3], 'state', 'pending')
redis.call('RPUSH', KEYS[4], ARGV[1])
redis.call('LREM', KEYS[1], 0, ARGV[1])
return 'MENDED'
