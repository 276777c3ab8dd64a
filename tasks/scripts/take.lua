-- Takes tasks from a queue, the oldest first, and leaves them as asynq v0.26.0 does
-- when it takes one (internal/rdb: dequeueCmd).
--
-- KEYS[1] ids of the queue's pending tasks
-- KEYS[2] exists while the queue is paused
-- KEYS[3] ids of the queue's active tasks
-- KEYS[4] leases of the queue
-- KEYS[5] what the same taker has taken last
-- ARGV[1] second at which the lease runs out
-- ARGV[2] what a task's key begins with, before its id: it has the tag of the KEYS
-- ARGV[3] number of tasks to take at most
-- ARGV[4] name of the call
-- ARGV[5] milliseconds for which the call may be repeated
--
-- Returns the id and the message of each. The same call again returns the same tasks,
-- but for those that others have got since. A task that is gone, or under whose key is
-- something of another type, is left out, and its id left among the active ones: it is for
-- the doctor.

local ids = {}
local last = redis.call('GET', KEYS[5])
local name = ARGV[4] .. ' '
if last and string.sub(last, 1, #name) == name then
  for _, id in ipairs(cjson.decode(string.sub(last, #name + 1))) do
    if tonumber(redis.call('ZSCORE', KEYS[4], id) or 0) == tonumber(ARGV[1]) then ids[#ids + 1] = id end
  end
else
  if redis.call('EXISTS', KEYS[2]) == 1 then return {} end
  redis.call('ZCARD', KEYS[4]) -- if it is of another type, nothing is taken
  local leases = {}
  for _ = 1, tonumber(ARGV[3]) do
    local id = redis.call('RPOPLPUSH', KEYS[1], KEYS[3])
    if not id then break end
    ids[#ids + 1] = id
    leases[#leases + 1] = ARGV[1]
    leases[#leases + 1] = id
  end
  if #ids == 0 then return {} end
  redis.call('ZADD', KEYS[4], unpack(leases))
  redis.call('SET', KEYS[5], name .. cjson.encode(ids), 'PX', ARGV[5])
end

local taken = {}
for _, id in ipairs(ids) do
  local key = ARGV[2] .. id
  local message = read('HGET', key, 'msg')
  if message then
    redis.call('HSET', key, 'state', 'active')
    redis.call('HDEL', key, 'pending_since')
    taken[#taken + 1] = id
    taken[#taken + 1] = message
  end
end
return taken
