-- Take requests from buckets. Returns the level of each bucket before that.
-- KEYS: buckets. ARGV: requests per second, burst, the number of requests for each bucket, and in tests the time.
--
-- Levels are whole millionths of a request and times are whole microseconds, so a rate of N requests per second adds
-- exactly N millionths per microsecond. Every number stays below 2^53, where the numbers of Lua are exact.
-- A missing bucket is full, so a bucket may expire once it has had the time to fill up.
local ONE = 1000000
local rate, full = tonumber(ARGV[1]), tonumber(ARGV[2]) * ONE
local now = tonumber(ARGV[#KEYS + 3])
if not now then
    local clock = redis.call('TIME')
    now = tonumber(clock[1]) * ONE + tonumber(clock[2])
end
local to_full = math.ceil(full / rate) -- from empty
local levels = {}
for i, key in ipairs(KEYS) do
    local level = full
    local kept = redis.call('GET', key)
    if kept then
        local last, left = string.match(kept, '^(%d+) (%d+)$')
        -- A clock that was set back adds nothing until it passes the stored time.
        local elapsed = math.max(now - tonumber(last), 0)
        if elapsed < to_full then
            level = math.min(tonumber(left) + elapsed * rate, full)
        end
    end
    levels[i] = level
    level = level - math.min(tonumber(ARGV[i + 2]), math.floor(level / ONE)) * ONE
    local lasts = math.ceil((full - level) / rate / 1000) + 1
    redis.call('SET', key, string.format('%.0f %.0f', now, level), 'PX', string.format('%.0f', lasts))
end
return levels
