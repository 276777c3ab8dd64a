-- Claims a push id for the content that a caller posted with an idempotency
-- key, or only looks at the claim. (SET with NX and GET together would claim
-- too, but Redis allows it only from version 7.0.)
--
-- KEYS[1] claim of the idempotency key
-- ARGV[1] hash of the posted fields
-- ARGV[2] seconds that a new claim lives; 0 to claim nothing
--
-- Returns NEW if there was no claim, OPEN for the same content, ENDED for the
-- same content after its push has ended (record.lua: mark_claim), OTHER for other
-- content.

local claim = redis.call('GET', KEYS[1])
if not claim then
  if ARGV[2] ~= '0' then redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2]) end
  return 'NEW'
end
if claim == ARGV[1] then return 'OPEN' end
if claim == ARGV[1] .. ' ended' then return 'ENDED' end
return 'OTHER'
