-- Puts tasks of one queue where asynq's workers find them, each exactly as
-- asynq v0.26.0 does with a call of its own (internal/rdb: enqueueCmd and
-- scheduleCmd): a task whose id is taken is left alone.
--
-- KEYS[1] ids of the queue's pending tasks (list), or of its scheduled ones
-- (sorted set)
-- KEYS[2] and on: hash of each task
-- ARGV[1] pending or scheduled
-- ARGV[2] and on: for each task its id, its message, and its time: since when it
-- is pending, in nanoseconds, or for when it is scheduled, in seconds
--
-- Returns which of the tasks, counted from 1, had an id that was taken. The same
-- id may be there twice: it is taken for the second of them.

local call, state = redis.call, ARGV[1]
local added, new, taken, seen = {}, {}, {}, {}
-- As a rule no id is taken, and then one look is enough.
local all_free = call('EXISTS', unpack(KEYS, 2)) == 0
for i = 2, #KEYS do
  local id = ARGV[3 * i - 4]
  if seen[id] or not all_free and call('EXISTS', KEYS[i]) == 1 then
    taken[#taken + 1] = i - 1
  else
    if state == 'scheduled' then added[#added + 1] = ARGV[3 * i - 2] end
    added[#added + 1] = id
    new[#new + 1] = i
  end
  seen[id] = true
end
-- The ids first: if Redis refuses them, no hash says at the repetition that the task is there.
if #added > 0 then call(state == 'pending' and 'LPUSH' or 'ZADD', KEYS[1], unpack(added)) end
for _, i in ipairs(new) do
  local message, time = ARGV[3 * i - 3], ARGV[3 * i - 2]
  if state == 'pending' then
    call('HSET', KEYS[i], 'msg', message, 'state', state, 'pending_since', time)
  else
    call('HSET', KEYS[i], 'msg', message, 'state', state)
  end
end
return taken
