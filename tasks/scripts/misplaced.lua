-- Puts a task right that is not where its hash says. asynq's workers go by the
-- lists and sets, its tools by the hash.
--
-- KEYS[1] hash of the task
-- KEYS[2] pending list, and the same for
-- KEYS[3] active list
-- KEYS[4] scheduled set
-- KEYS[5] retry set
-- KEYS[6] archived set
-- KEYS[7] completed set
-- ARGV[1] task id
-- ARGV[2] 'fix', or 'look' to change nothing
--
-- Returns WELL, WRONG (only looked at) or MENDED. A task that is somewhere else
-- gets that state. One that is nowhere goes back to the archive or to the
-- completed ones if its hash says so, and to the queue otherwise: it was
-- accepted and has not ended.

local state = redis.call('HGET', KEYS[1], 'state')
if not state or state == 'aggregating' then return 'WELL' end

local places = {'pending', 'active', 'scheduled', 'retry', 'archived', 'completed'}
local found
for place, name in ipairs(places) do
  local command = place <= 2 and 'LPOS' or 'ZSCORE'
  if (not found or name == state) and redis.call(command, KEYS[place + 1], ARGV[1]) then found = name end
end
if found == state then return 'WELL' end
if ARGV[2] ~= 'fix' then return 'WRONG' end

if found then
  redis.call('HSET', KEYS[1], 'state', found)
elseif redis.call('HEXISTS', KEYS[1], 'msg') == 0 then
  redis.call('DEL', KEYS[1]) -- what a ghost has left
elseif state == 'archived' then
  redis.call('ZADD', KEYS[6], redis.call('TIME')[1], ARGV[1])
elseif state == 'completed' then
  redis.call('ZADD', KEYS[7], redis.call('TIME')[1], ARGV[1]) -- expires at once
else
  redis.call('LPUSH', KEYS[2], ARGV[1])
  redis.call('HSET', KEYS[1], 'state', 'pending')
end
return 'MENDED'
