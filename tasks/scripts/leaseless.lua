-- Finds on one page of the active list the tasks without a lease. asynq adds
-- and removes both in one script, so at no instant is one without the other.
--
-- KEYS[1] active list of the queue
-- KEYS[2] leases of the queue
-- ARGV[1] first place of the page
-- ARGV[2] last place of the page
--
-- Returns {length of the page, id without a lease, ...}.

local ids = redis.call('LRANGE', KEYS[1], ARGV[1], ARGV[2])
local reply = {#ids}
for _, id in ipairs(ids) do
  if not redis.call('ZSCORE', KEYS[2], id) then reply[#reply + 1] = id end
end
return reply
