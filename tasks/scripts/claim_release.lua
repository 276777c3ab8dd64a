-- Releases the claim of an idempotency key whose push was never stored, unless
-- somebody has looked at it lately: a caller that has just claimed it, or found
-- it claimed, is about to store its push.
--
-- KEYS[1] claim of the idempotency key
-- KEYS[2] record of the push
-- ARGV[1] claim as it was seen
-- ARGV[2] seconds for which nobody must have looked at it
-- ARGV[3] 'fix', or 'look' to change nothing
--
-- Returns WELL, WRONG (only looked at) or MENDED.

local idle = redis.call('OBJECT', 'IDLETIME', KEYS[1]) -- before GET, which ends it
if not idle or idle < tonumber(ARGV[2]) then return 'WELL' end
if redis.call('GET', KEYS[1]) ~= ARGV[1] or redis.call('EXISTS', KEYS[2]) == 1 then return 'WELL' end
if ARGV[3] ~= 'fix' then return 'WRONG' end
redis.call('DEL', KEYS[1])
return 'MENDED'
