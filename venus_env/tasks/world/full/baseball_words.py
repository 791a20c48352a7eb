"""Kinds and wordings of baseball: players, franchises, team seasons, parks, schools and championship series."""

from __future__ import annotations

from venus_env.tasks.world.full.schema import Kind, Measure, Relation, by_name

_BIRTH = Measure("was born later", "was born earlier", "was the last to be born", "was the first to be born")
_DEBUT = Measure(
    "made his debut later",
    "made his debut earlier",
    "was the last to make his debut",
    "was the first to make his debut",
)
_HEIGHT = Measure("is the taller", "is the shorter", "is the tallest", "is the shortest")
_WINS = Measure("won more games", "won fewer games", "won the most games", "won the fewest games")

PLAYER = Kind(
    "player", "baseball player", "who",
    (
        "{n} is [recorded as|known as] a baseball [man|figure] of the {era} major leagues.",
        "{n} [belongs to|is part of] the history of {era} major-league baseball.",
        "{n} [took part in|had a place in] major-league baseball in the {era} period.",
    ),
    (
        "[This page|The entry] outlines his life and his career: the places and dates that the records hold, the clubs with "
        "which he began and ended, and his honours, if he had any. [Single games are|Statistics are] not part of it.",
        "[As for others of his trade|As usual for ballplayers], the sources give places, dates and clubs, and little of the "
        "man himself; what they tell is [set down|collected] below, [without|but not] the tables of his batting and his fielding.",
        "[His dates, places and clubs|The main dates and places of his life] are given below, so far as the database behind "
        "this work knows them; stories, salaries and [quarrels|injuries] have to be looked up in [the newspapers|other books] of his time.",
    ),
    ("He",), "Life and career",
    by_name(
        Relation(
            "given_name", "full name", "text", "Full name",
            ("His full [given|] name was {v}.", "[In full|Officially] he was named {v}."),
        ),
        Relation(
            "birth_date", "date of birth", "date", "Born",
            ("{s} was born on {v}.", "His date of birth is {v}."),
            ("the date of birth of {x}", "the birth date of {x}"),
            ("the day on which {x} came into the world",), "his date of birth", measure=_BIRTH,
        ),
        Relation(
            "birth_city", "birthplace", "city", "Birthplace",
            ("{s} was born in {v}.", "His birthplace was {v}.", "{s} [came|hailed] from {v}, his birthplace."),
            ("the birthplace of {x}", "the city where {x} was born"),
            ("the city in which {x} came into the world", "the native city of {x}"),
            "his birthplace", ("was born in {v}",),
        ),
        Relation(
            "death_date", "date of death", "date", "Died",
            ("{s} died on {v}.", "His date of death is {v}."),
            ("the date of death of {x}",), ("the day on which {x} died",), "his date of death",
        ),
        Relation(
            "death_city", "place of death", "city", "Place of death",
            ("{s} died in {v}.", "His place of death was {v}."),
            ("the place of death of {x}", "the city where {x} died"),
            ("the city in which the life of {x} ended",), "his place of death", ("died in {v}",),
        ),
        Relation(
            "school", "college", "school", "College",
            ("His college was {v}.", "{s} played college ball at {v}.", "{s} went to college at {v}."),
            ("the college of {x}", "the college where {x} played"), ("the alma mater of {x}",),
            "his college", ("played college ball at {v}",),
        ),
        Relation(
            "bats", "batting side", "text", "Bats",
            ("{s} batted {v}.", "At the plate he batted {v}."), clauses=("batted {v}",),
        ),
        Relation(
            "throws", "throwing arm", "text", "Throws",
            ("{s} threw {v}.", "In the field he threw {v}."), clauses=("threw {v}",),
        ),
        Relation(
            "height", "height", "number", "Height",
            ("His height was {v}.", "{s} stood at a height of {v}."),
            ("the height in inches of {x}",), ("the stature in inches of {x}",), "his height in inches",
            measure=_HEIGHT, unit="inches", clauses=("stood {v} tall",),
        ),
        Relation(
            "birth_year", "year of birth", "year", "",
            (), clauses=("has {v} as his year of birth",),
        ),
        Relation(
            "debut_date", "debut", "date", "Debut",
            ("{s} made his debut [in the major leagues|] on {v}.", "His debut [came|was] on {v}."),
            ("the date of the debut of {x}", "the date of the first major-league game of {x}"),
            ("the day on which {x} first appeared in the major leagues",), "the date of his debut", measure=_DEBUT,
        ),
        Relation(
            "debut_year", "debut year", "year", "",
            (), clauses=("made his debut in {v}",),
        ),
        Relation(
            "first_team", "first team", "season", "First team",
            ("His first team was the {v}.", "{s} started with the {v}, his first team."),
            ("the first team season of {x}", "the team season in which {x} made his debut"),
            ("the club, with its year, that gave {x} his first game",), "his first team season", ("first played for the {v}",),
        ),
        Relation(
            "last_team", "last team", "season", "Last team",
            ("His last team was the {v}.", "{s} finished with the {v}, his last team."),
            ("the last team season of {x}", "the team season in which {x} ended his career"),
            ("the club, with its year, that gave {x} his last game",), "his last team season", ("last played for the {v}",),
        ),
        Relation(
            "hall_of_fame", "Hall of Fame year", "year", "Hall of Fame",
            ("{s} entered the Hall of Fame in {v}.", "The Hall of Fame took him in in {v}."),
            ("the Hall of Fame year of {x}", "the year in which {x} entered the Hall of Fame"),
            ("the year of the induction of {x} at Cooperstown",), "the year he entered the Hall of Fame",
        ),
        Relation(
            "gold_gloves", "Gold Glove seasons", "year", "Gold Glove",
            ("{s} won a Gold Glove in {v}.", "Gold Glove seasons: {v}."),
            plural="Gold Glove seasons of {x}",
        ),
        Relation(
            "all_star", "All-Star seasons", "year", "All-Star",
            ("{s} was an All-Star in {v}.", "All-Star seasons: {v}."),
            plural="All-Star seasons of {x}",
        ),
        Relation(
            "managed", "teams managed", "season", "Managed",
            ("{s} managed the {v}.", "As manager he led the {v}."),
            plural="team seasons managed by {x}",
        ),
    ),
    sharealike=True,
)  # fmt: skip

SEASON = Kind(
    "season", "team season", "that",
    (
        "The {n} were a [baseball team|club] of the major leagues.",
        "The {n} [played|competed] in major-league baseball.",
        "The {n} were one of the [clubs|teams] of their season.",
    ),
    (
        "[This page|The entry] sums up their season: how they fared, who led them and who stood out, and where they were at "
        "home. The [course|story] of single games is [not told|left out], nor are trades, injuries and [contracts|quarrels].",
        "[Below are|Given below are] their results, their leaders and their ground, as far as one name can be given for "
        "each; where two men shared a [place|lead], the sources of this work [name neither|leave it open] and so does this page.",
    ),
    ("They",), "Season",
    by_name(
        Relation(
            "franchise", "franchise", "franchise", "Franchise",
            ("They belong to the franchise of the {v}.", "The franchise is [that of|] the {v}."),
        ),
        Relation(
            "league", "league", "text", "League",
            ("{s} played in the {v}.", "Their league was the {v}."),
        ),
        Relation(
            "manager", "manager", "player", "Manager",
            ("{s} were led by manager {v}.", "The manager was {v}."),
            ("the manager of {x}", "the man who managed {x}"), ("the skipper in charge of {x}",), "its manager",
            ("were managed by {v}",),
        ),
        Relation(
            "wins", "wins", "number", "Wins",
            ("{s} won {v} games.", "Their wins came to {v}."),
            ("the number of wins of {x}", "the number of games won by {x}"), ("the victory total of {x}",),
            "its number of wins", measure=_WINS,
        ),
        Relation(
            "losses", "losses", "number", "Losses",
            ("{s} lost {v} games.", "Their losses came to {v}."),
            ("the number of losses of {x}", "the number of games lost by {x}"), ("the total of defeats of {x}",),
            "its number of losses",
        ),
        Relation(
            "attendance", "attendance", "number", "Attendance",
            ("The attendance at home was {v}.", "Their home games drew an attendance of {v}."),
            ("the home attendance of {x}", "the season attendance of {x}"), ("the count of spectators at home games of {x}",),
            "its attendance",
        ),
        Relation(
            "park", "home park", "park", "Home park",
            ("Their home park was {v}.", "{s} played at their home park, {v}."),
            ("the home park of {x}", "the park where {x} played at home"), ("the ground on which {x} hosted games",),
            "its home park", ("played at {v}",),
        ),
        Relation(
            "home_run_leader", "home run leader", "player", "Home run leader",
            ("The home run leader was {v}.", "{v} led them in home runs as home run leader."),
            ("the home run leader of {x}", "the player with the most home runs for {x}"),
            ("the top slugger of {x}",), "its home run leader", ("had {v} as their home run leader",),
        ),
        Relation(
            "winning_pitcher", "pitcher with the most wins", "player", "Most wins",
            ("The pitcher with the most wins was {v}.", "{v} was the pitcher with the most wins."),
            ("the pitcher with the most wins for {x}", "the most successful pitcher of {x}"),
            ("the leading winner on the staff of {x}",), "its pitcher with the most wins",
        ),
    ),
    sharealike=True,
    article=True,
)  # fmt: skip

FRANCHISE = Kind(
    "franchise", "franchise", "that",
    ("The {n} are a baseball franchise.", "The franchise of the {n} [belongs to|is part of] major-league history.",),
    (
        "[A franchise can|In baseball a franchise can] move from one city to another and change its name on the way, so that "
        "its clubs bear several names; this page [follows|holds] them together, from the beginning to the [present|last season known].",
    ),
    ("The franchise",), "History",
    by_name(
        Relation(
            "first_season", "first season", "season", "First season",
            ("The first season was that of the {v}.",),
            ("the first season of {x}", "the earliest team of {x}"), ("the team with which {x} began",), "its first season",
        ),
        Relation(
            "latest_season", "latest season", "season", "Latest season",
            ("The latest season on record is that of the {v}.",),
        ),
        Relation(
            "titles", "World Series titles", "series", "World Series titles",
            ("World Series titles: {v}.", "{s} won the {v}."),
            plural="World Series titles won by {x}",
        ),
    ),
    sharealike=True,
    article=True,
)  # fmt: skip

PARK = Kind(
    "park", "ballpark", "that",
    ("{n} is a [ballpark|baseball ground].", "{n} [has been|was] a ground for major-league baseball.",),
    (
        "[This page|The entry] tells where it is, when the major leagues came to it and who was at home there first; its "
        "[measures|fences], its seats and its [owners|later fate] are left to the [books|guides] on ballparks, of which there are many.",
    ),
    ("The park", "It"), "Use",
    by_name(
        Relation(
            "city", "city", "city", "City",
            ("{s} stands in {v}.", "The city is {v}.", "{s} [is|was] found in {v}."),
            ("the city of {x}", "the city where {x} stands"), ("the place that has {x} as a ground",), "its city",
            ("stands in {v}",),
        ),
        Relation(
            "opened", "first season of use", "year", "First season of use",
            ("The first season of use was {v}.", "Its first season of use came in {v}."),
            ("the first season of use of {x}", "the year of the first major-league game at {x}"),
            ("the year that first saw big-league games at {x}",), "its first season of use",
            ("was first used in {v}",),
        ),
        Relation(
            "first_tenant", "first home team", "season", "First home team",
            ("The first home team was the {v}.", "Its first home team were the {v}."),
            ("the first home team of {x}", "the first home team at {x}"), ("the tenant with which {x} opened",),
            "its first home team",
        ),
    ),
    sharealike=True,
)  # fmt: skip

SCHOOL = Kind(
    "school", "school", "that",
    ("{n} is a school whose [ballplayers|students] reached the major leagues.",
     "{n} [has|had] a [baseball program|college team] with future major leaguers.",),
    (
        "[This page|The entry] tells where it is and names men of this work who played there, whether or not they took a "
        "degree; [teams|coaches], results and [students of other sports|other sports] are [not covered|left out] here.",
    ),
    ("The school", "It"), "Baseball",
    by_name(
        Relation(
            "city", "city", "city", "City",
            ("{s} is in {v}.", "Its city is {v}."),
            ("the city of {x}", "the city where {x} is found"), ("the town that is home to {x}",), "its city",
        ),
        Relation(
            "alumni", "players", "player", "",
            ("Players listed: {v}.", "Among those who played there are {v}."),
        ),
    ),
    sharealike=True,
)  # fmt: skip

SERIES = Kind(
    "series", "championship series", "that",
    ("The {n} was a [series|contest] for a title in baseball.", "The {n} [decided|settled] a title in major-league baseball.",),
    (
        "[Two clubs met in it|It was played between two clubs] after the regular season, and the one that was first to win "
        "the number of games agreed on took the title; the scores of the games are [not given|left out] here.",
    ),
    ("The series",), "Result",
    by_name(
        Relation(
            "winner", "winner", "season", "Winner",
            ("The winner was the team of the {v}.", "The {v} came out as winner."),
            ("the winner of {x}", "the team that won {x}"), ("the side victorious in {x}",), "its winner",
        ),
        Relation(
            "loser", "loser", "season", "Loser",
            ("The loser was the team of the {v}.", "The {v} left as loser."),
            ("the loser of {x}", "the team that lost {x}"), ("the side beaten in {x}",), "the loser of it",
        ),
    ),
    sharealike=True,
    article=True,
)  # fmt: skip

BASEBALL_KINDS = (PLAYER, SEASON, FRANCHISE, PARK, SCHOOL, SERIES)
