-- Takes tasks from a queue, the oldest first, and leaves them as asynq v0.26.0 does
-- when it takes one (internal/rdb: dequeueCmd).
--
-- KEYS[1] ids of the queue's pending tasks
-- KEYS[2] exists while the queue is paused
-- KEYS[3] ids of the queue's active tasks
-- KEYS[4] leases of the queue
-- ARGV[1] second at which the lease runs out, with a fraction that no other call has
-- ARGV[2] what a task's key begins with, before its id: it has the tag of the KEYS
-- ARGV[3] number of tasks to take at most
--
-- Returns the id and the message of each. The same call again returns the same tasks,
-- as long as nobody has extended their lease. A task that is gone is left out, and its
-- id left among the active ones: it is for the doctor.

local ids = redis.call('ZRANGEBYSCORE', KEYS[4], ARGV[1], ARGV[1])
if #ids == 0 then
  if redis.call('EXISTS', KEYS[2]) == 1 then return {} end
  local newest_first = redis.call('LRANGE', KEYS[1], -ARGV[3], -1)
  if #newest_first == 0 then return {} end
  local leases = {}
  for place = #newest_first, 1, -1 do
    ids[#ids + 1] = newest_first[place]
    leases[#leases + 1] = ARGV[1]
    leases[#leases + 1] = newest_first[place]
  end
  -- First what Redis refuses when it is full: nothing is taken then.
  redis.call('LPUSH', KEYS[3], unpack(ids))
  redis.call('ZADD', KEYS[4], unpack(leases))
  redis.call('LTRIM', KEYS[1], 0, -#ids - 1)
end

local taken = {}
for _, id in ipairs(ids) do
  local key = ARGV[2] .. id
  redis.call('HSET', key, 'state', 'active')
  redis.call('HDEL', key, 'pending_since')
  local message = redis.call('HGET', key, 'msg')
  if message then
    taken[#taken + 1] = id
    taken[#taken + 1] = message
  end
end
return taken
