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

local state = read('HGET', KEYS[1], 'state')
if not state or state == 'aggregating' then return 'WELL' end

local places = {'pending', 'active', 'scheduled', 'retry', 'archived', 'completed'}
local function is_in(place)
  return redis.call(place <= 2 and 'LPOS' or 'ZSCORE', KEYS[place + 1], ARGV[1])
end

-- The pending list may be long: it is searched only for what is not elsewhere.
for place, name in ipairs(places) do
  if name == state and is_in(place) then return 'WELL' end
end
local found
for place = #places, 1, -1 do
  if not found and places[place] ~= state and is_in(place) then found = places[place] end
end
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
