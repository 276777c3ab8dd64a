-- Stands before the scripts that read the state of the pace.

local announcement_lives = 15000000 -- microseconds; announced at least every 5 s
local recovery = 0.01               -- of the full speed, a second

